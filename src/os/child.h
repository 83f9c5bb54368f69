// Running another program and waiting for it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

// Starts `words` (found by PATH) in `dir`, with our standard streams and the environment plus `PWD`, and
// waits. Returns its exit status, or 128 and the number of the signal that ended it, as a shell does.
// While it runs, keys on the terminal are its own business; SIGTERM and SIGHUP are passed on to it. These
// signals may be blocked when this is called, and are again when it returns. kNotFound.
Result<int> run_child(const std::vector<std::string>& words, const std::string& dir);

}  // namespace warren
