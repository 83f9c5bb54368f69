#include "os/fd.h"

#include <cerrno>

#include <unistd.h>

#include "os/error.h"

namespace warren {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (number_ >= 0) ::close(number_);
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (number_ >= 0) ::close(number_);
}

Result<std::size_t> read_some(int fd, MutableBytes out) {
  for (;;) {
    ssize_t count = ::read(fd, out.data(), out.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return system_error(errno, "read");
  }
}

Result<std::size_t> read_full(int fd, MutableBytes out) {
  std::size_t done = 0;
  while (done < out.size()) {
    std::size_t count = WARREN_TRY(read_some(fd, out.subspan(done)));
    if (count == 0) break;
    done += count;
  }
  return done;
}

Status write_all(int fd, Bytes data) {
  while (!data.empty()) {
    ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return system_error(errno, "write");
    }
    data = data.subspan(static_cast<std::size_t>(count));
  }
  return Ok{};
}

}  // namespace warren
