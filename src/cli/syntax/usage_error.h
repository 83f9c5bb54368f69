// The message for a mistake on the command line, in the dialect of the program that was called.
#pragma once

#include <cstdint>
#include <string>

#include "cli/syntax/args.h"
#include "cli/syntax/help.h"

namespace warren::cli {

// Complete lines. kAgentFs uses the layout that AgentFS scripts expect; the usage of Warren's own is wrapped to
// `columns`.
std::string explain(const UsageError& error, Dialect dialect, std::size_t columns = SIZE_MAX);

}  // namespace warren::cli
