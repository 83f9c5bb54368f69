#include "os/pipe.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "os/error.h"

namespace warren {

Result<Pipe> open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "pipe");
  return Pipe{.reader = Fd(ends[0]), .writer = Fd(ends[1])};
}

}  // namespace warren
