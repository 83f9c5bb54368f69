// Sends what we write to a descriptor through another program, such as a pager, until it ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <csignal>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// One at a time. While it exists, the terminal's keys (SIGINT, SIGQUIT) are the program's and not ours.
class OutputPipe {
 public:
  // Starts `words` (found by PATH) with our standard output and error, and connects `fd` to its standard input.
  // `environment` has "NAME=value". kNotFound.
  static Result<std::unique_ptr<OutputPipe>> start(const std::vector<std::string>& words, int fd,
                                                   const std::vector<std::string>& environment = {});
  ~OutputPipe();  // closes the pipe, restores the descriptor and waits for the program
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

 private:
  OutputPipe(int fd, Fd before, pid_t pid);

  int fd_;
  Fd before_;
  pid_t pid_;
  struct sigaction interrupt_ {};
  struct sigaction quit_ {};
};

}  // namespace warren
