#include "fuse/unmount_guard.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include "fuse/mount_point.h"
#include "os/error.h"
#include "os/pipe.h"

namespace warren {

Result<std::unique_ptr<UnmountGuard>> UnmountGuard::start(const std::string& dir) {
  Pipe pipe = WARREN_TRY(open_pipe());
  pid_t child = ::fork();
  if (child < 0) return system_error(errno, "fork");
  if (child > 0) return std::unique_ptr<UnmountGuard>(new UnmountGuard(std::move(pipe.writer)));
  ::setsid();
  // Close everything: whoever waits for a descriptor of ours to close must not wait for the guard.
  Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int standard : {0, 1, 2}) ::dup2(nothing.get(), standard);
  auto keep = static_cast<unsigned>(pipe.reader.get());
  ::close_range(3, keep - 1, 0);
  ::close_range(keep + 1, ~0U, 0);
  std::array<std::byte, 1> never{};
  read_some(pipe.reader.get(), never).ignore("either way the other end is closed");
  // An ending process closes one thing after another; the mount may die a moment after our pipe.
  for (int tries = 0; tries < 50; ++tries) {
    if (is_dead_mount(dir)) {
      unmount_fuse(dir, Unmount::kDetach).ignore("`warren prune mounts` can try again");
      break;
    }
    ::usleep(20'000);
  }
  ::_exit(0);
}

}  // namespace warren
