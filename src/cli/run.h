// Parses a command line, runs the command and returns the exit status.
#pragma once

#include <span>
#include <string>

#include "cli/context.h"
#include "cli/syntax/help.h"

namespace warren::cli {

// On return all output has been written; if that failed, the status is Exit::kFailed.
int run(Context& context, Dialect dialect, std::span<const std::string> words);

}  // namespace warren::cli
