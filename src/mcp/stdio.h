// The transport over standard input and output: one message a line.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/result.h"
#include "mcp/service.h"

namespace warren::mcp {

struct StdioOptions {
  int input = 0;
  int output = 1;
  int stop_fd = -1;                                    // readable: end
  std::size_t line_bytes_max = std::size_t{64} << 20;  // a longer line is answered with an error and passed over
  std::size_t threads = 4;
  // A client that has closed its side and reads nothing for so long is gone.
  std::chrono::milliseconds unread_patience{30'000};
  // How long commands (the tool `run`) may go on after the end of input. None go on when nobody reads the output.
  std::chrono::milliseconds command_patience{2'000};
};

// Serves one client until its end of input, or until stop_fd is readable. Requests that are running are answered; after
// a stop, or if the client does not read, not all of them, and neither commands that go on for too long. Takes over the
// output: nothing else may write to it.
Status serve_stdio(Service& service, const StdioOptions& options);

}  // namespace warren::mcp
