// From the words of a command line to an exit status.
#pragma once

#include <span>
#include <string>

#include "cli/context.h"
#include "cli/syntax/help.h"

namespace warren::cli {

// Everything that a command prints has been written, or the status says that it was not.
int run(Context& context, Dialect dialect, std::span<const std::string> words);

}  // namespace warren::cli
