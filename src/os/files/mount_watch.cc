#include "os/files/mount_watch.h"

#include <cerrno>

#include <fcntl.h>
#include <poll.h>

#include "os/error.h"
#include "os/files/mount_table.h"

namespace warren {

Result<MountWatch::Table> MountWatch::read() {
  std::vector<MountEntry> entries = WARREN_TRY(read_mount_table());
  Table table;
  for (MountEntry& one : entries) table[one.dir].push_back({one.id, one.device, std::move(one.root)});
  return table;
}

Result<MountWatch> MountWatch::open() {
  Fd table(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (!table.is_open()) return system_error(errno, "watch mounts");
  MountWatch watch(std::move(table));
  watch.known_ = WARREN_TRY(read());
  return watch;
}

Result<std::set<std::string>> MountWatch::take() {
  std::set<std::string> changed;
  pollfd event{table_.get(), POLLPRI, 0};  // set by the kernel when the table differs from the one of the last poll
  if (::poll(&event, 1, 0) <= 0 || (event.revents & (POLLPRI | POLLERR)) == 0) return changed;
  Table now = WARREN_TRY(read());
  for (const auto& [dir, mounts] : now) {
    auto before = known_.find(dir);
    if (before == known_.end() || before->second != mounts) changed.insert(dir);
  }
  for (const auto& [dir, mounts] : known_) {
    if (!now.contains(dir)) changed.insert(dir);
  }
  known_ = std::move(now);
  return changed;
}

}  // namespace warren
