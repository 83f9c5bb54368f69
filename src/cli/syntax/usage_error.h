// The message for a mistake on the command line, in the dialect of the program that was called.
#pragma once

#include <string>

#include "cli/syntax/args.h"
#include "cli/syntax/help.h"

namespace warren::cli {

// Complete lines. kAgentFs uses the layout that AgentFS scripts expect.
std::string explain(const UsageError& error, Dialect dialect);

}  // namespace warren::cli
