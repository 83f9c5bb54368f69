// Running another program for what it prints.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

struct Captured {
  int status = 0;  // as run_child's
  std::string output;
  std::string errors;
};

// Starts `words` (found by PATH) in `dir` and waits. `input` is its standard input, from where the descriptor
// stands; -1: nothing. kNotFound.
Result<Captured> run_captured(const std::vector<std::string>& words, const std::string& dir, int input = -1);

// A file without a name, on disk, that goes when it is closed.
Result<Fd> open_scratch_file();

}  // namespace warren
