#include "sandbox/view/foreign_mounts.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <vector>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/error.h"
#include "os/files/mount_table.h"
#include "sandbox/view/mounts.h"

namespace warren {
namespace {

std::uint64_t mount_at(const std::string& path) {
  struct statx info {};
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  bool is_known =
      ::statx(AT_FDCWD, path.c_str(), flags, STATX_MNT_ID, &info) == 0 && (info.stx_mask & STATX_MNT_ID) != 0;
  return is_known ? info.stx_mnt_id : 0;
}

// Something of ours may cover it; then nobody sees it, and it must stay.
void remove_mount(const MountEntry& mount) {
  if (mount_at(mount.dir) != mount.id) return;
  if (::umount2(mount.dir.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) return;
  constexpr std::uint64_t kSealed = mounts::kReadOnly | mounts::kNoSuid | mounts::kNoDev;
  mounts::set_attributes(mount.dir, kSealed, mounts::Depth::kTree).ignore("Landlock refuses writing there too");
}

}  // namespace

Result<ForeignMounts> ForeignMounts::watch() {
  Fd table(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (!table.is_open()) return system_error(errno, "open /proc/self/mountinfo");
  ForeignMounts mounts(std::move(table));
  std::vector<MountEntry> all = WARREN_TRY(read_mount_table());
  for (const MountEntry& mount : all) mounts.known_.insert(mount.id);
  return mounts;
}

void ForeignMounts::remove_new() {
  Result<std::vector<MountEntry>> all = read_mount_table();
  if (!all.ok()) return;
  std::map<std::uint64_t, const MountEntry*> by_id;
  for (const MountEntry& mount : *all) by_id.emplace(mount.id, &mount);
  for (auto mount = all->rbegin(); mount != all->rend(); ++mount) {  // inner ones first
    auto parent = by_id.find(mount->parent);
    bool is_on_hosts = parent != by_id.end() && parent->second->is_slave;
    if (!known_.contains(mount->id) && is_on_hosts) remove_mount(*mount);
  }
  // Ids are reused.
  std::erase_if(known_, [&](std::uint64_t id) { return !by_id.contains(id); });
}

}  // namespace warren
