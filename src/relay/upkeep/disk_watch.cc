#include "relay/upkeep/disk_watch.h"

#include <cerrno>

#include <sys/statvfs.h>

#include "os/error.h"

namespace warren::relay {

Result<double> disk_used(int dir) {
  struct statvfs info {};
  if (::fstatvfs(dir, &info) != 0) return system_error(errno, "statvfs");
  auto used = static_cast<double>(info.f_blocks - info.f_bfree);
  double usable = used + static_cast<double>(info.f_bavail);
  return usable > 0 ? used / usable : 0;  // unknown on some network filesystems
}

bool DiskWatch::check() {
  Result<double> used = disk_used(dir_);
  if (!used.ok()) {
    log_.note(Severity::kWarning, "disk_unknown", {{"error", used.error().message()}});
    return is_low_;
  }
  bool was_low = is_low_;
  is_low_ = *used * 100 >= alert_percent_;
  metrics_.set_disk(*used, is_low_);
  Json details = {{"used_percent", static_cast<int>(*used * 100)}, {"alert_percent", alert_percent_}};
  if (is_low_ && !was_low) log_.audit("disk_nearly_full", details);
  if (!is_low_ && was_low) log_.audit("disk_has_room", details);
  return is_low_;
}

}  // namespace warren::relay
