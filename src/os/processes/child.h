// Running another program and waiting for it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

// Starts `words` (found by PATH) in `dir`, with our standard streams and our environment with `PWD` set, and waits.
// Returns its exit status, or 128 plus the number of the signal that ended it, as a shell does. While it runs, we
// ignore the terminal's keys (SIGINT, SIGQUIT) and pass SIGTERM and SIGHUP on to it. These signals may be blocked by
// the caller; they are blocked again when this returns. kNotFound.
Result<int> run_child(const std::vector<std::string>& words, const std::string& dir);

}  // namespace warren
