// Running another program and capturing its output.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

struct Captured {
  int status = 0;  // as run_child returns it
  int signal = 0;  // that has ended it; 0 for none
  std::string output;
  std::string errors;
};

// Starts `words` (found by PATH) in `dir` and waits. `input` becomes its standard input, read from the descriptor's
// current position; -1: no input. A program that runs longer than `limit` is killed, without its children. kNotFound,
// kTimeout; with a limit also kTooLarge, if it prints more than 256 MiB. `environment` (NAME=VALUE each) is all that
// the program gets; nullptr: our own. With `memory_bytes`, the program cannot allocate more than that, nor can what it
// starts, each by itself; mapped files do not count. The program blocks no signals, whatever this thread has blocked,
// and is killed when this process ends.
Result<Captured> run_captured(const std::vector<std::string>& words, const std::string& dir, int input = -1,
                              std::optional<std::chrono::milliseconds> limit = std::nullopt,
                              const std::vector<std::string>* environment = nullptr,
                              std::optional<std::uint64_t> memory_bytes = std::nullopt);

// The same, in a process group of its own, which is killed as a whole after `limit`. If this process has the terminal,
// the program gets it until it ends, so that it can ask for something.
Result<Captured> run_captured_group(const std::vector<std::string>& words, const std::string& dir,
                                    std::chrono::milliseconds limit);

// Waits for a child that writes to these files in memory, and returns what it wrote. As above, otherwise.
Result<Captured> wait_captured(int pid, const std::string& name, std::optional<std::chrono::milliseconds> limit,
                               int output, int errors);

// An unnamed file in memory, for what must not reach a disk.
Result<Fd> open_memory_file();

// An unnamed file on disk, deleted when it is closed.
Result<Fd> open_scratch_file();

}  // namespace warren
