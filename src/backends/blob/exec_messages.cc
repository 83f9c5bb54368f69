#include "backends/blob/exec_messages.h"

#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

#include <poll.h>
#include <unistd.h>

#include "base/bytes.h"

namespace warren {

void pass_messages(Fd& from) {
  constexpr std::size_t kAtOnceBytes = 1U << 20;
  std::array<char, PIPE_BUF> buffer;
  for (std::size_t passed = 0; from.is_open() && passed < kAtOnceBytes;) {
    ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) from = Fd();
    if (got <= 0) return;
    passed += static_cast<std::size_t>(got);
    pollfd ours{STDERR_FILENO, POLLOUT, 0};
    bool is_read = ::poll(&ours, 1, 0) == 1 && ours.revents == POLLOUT;  // then there is space for PIPE_BUF bytes
    if (!is_read) continue;
    write_all(STDERR_FILENO, as_bytes(std::string_view(buffer.data(), static_cast<std::size_t>(got))))
        .ignore("nobody reads them");
  }
}

}  // namespace warren
