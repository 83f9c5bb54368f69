// A mistake on the command line, told in the words of the program that was called.
#pragma once

#include <string>

#include "cli/syntax/args.h"
#include "cli/syntax/help.h"

namespace warren::cli {

// All lines, with line ends. kAgentFs has the layout that scripts for AgentFS know.
std::string explain(const UsageError& error, Dialect dialect);

}  // namespace warren::cli
