#include "sandbox/view/aliases.h"

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/path.h"
#include "sandbox/view/plan.h"

namespace warren {
namespace {

struct Reached {
  std::uint64_t mount = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool is_directory = false;

  bool is_same_node(const Reached& other) const { return device == other.device && inode == other.inode; }
};

// nullopt also if we may not inspect it: processes inside have no more rights.
std::optional<Reached> reach(const std::string& path) {
  struct statx info {};
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (::statx(AT_FDCWD, path.c_str(), flags, STATX_TYPE | STATX_INO | STATX_MNT_ID, &info) != 0) return std::nullopt;
  if ((info.stx_mask & STATX_MNT_ID) == 0) return std::nullopt;
  return Reached{.mount = info.stx_mnt_id,
                 .device = makedev(info.stx_dev_major, info.stx_dev_minor),
                 .inode = info.stx_ino,
                 .is_directory = S_ISDIR(info.stx_mode)};
}

// The rest of `path` below `dir`, with its leading slash: "" for `dir` itself.
std::string below(const std::string& path, const std::string& dir) {
  return dir == "/" ? path : path.substr(dir.size());
}

std::string joined(const std::string& dir, const std::string& rest) {
  if (dir != "/") return dir + rest;
  return rest.empty() ? dir : rest;
}

struct Named {
  std::string path;
  bool is_itself = true;  // false: the mount shows something below it
};

// By the table: the path's position in its filesystem, compared with the root of the other mount.
std::optional<Named> by_root(const std::string& inner, const MountEntry& other) {
  if (is_within(inner, other.root)) return Named{joined(other.dir, below(inner, other.root))};
  if (is_within(other.root, inner)) return Named{other.dir, false};
  return std::nullopt;
}

// By identity: the other mount shows a directory that is on the way to the path.
std::optional<Named> by_identity(const std::string& path, const MountEntry& own, const MountEntry& other) {
  std::optional<Reached> root = reach(other.dir);
  if (!root || root->mount != other.id) return std::nullopt;
  for (std::string at = path; is_within(at, own.dir); at = std::string(split_parent(at).parent)) {
    std::optional<Reached> here = reach(at);
    if (here && here->is_same_node(*root)) return Named{joined(other.dir, below(path, at))};
    if (at == "/") break;
  }
  return std::nullopt;
}

}  // namespace

Result<Aliases> Aliases::read() {
  std::vector<MountEntry> mounts = WARREN_TRY(read_mount_table());
  return Aliases(std::move(mounts));
}

std::vector<Aliases::Alias> Aliases::of(const std::string& path) const {
  std::optional<Reached> node = reach(path);
  if (!node) return {};
  auto own = std::find_if(mounts_.begin(), mounts_.end(), [&](const MountEntry& m) { return m.id == node->mount; });
  if (own == mounts_.end() || !is_within(path, own->dir)) return {};
  std::string inner = joined(own->root, below(path, own->dir));
  std::vector<Alias> found;
  for (const MountEntry& other : mounts_) {
    if (other.id == own->id || other.device != own->device) continue;
    for (const std::optional<Named>& named : {by_root(inner, other), by_identity(path, *own, other)}) {
      if (!named || named->path == "/") continue;
      // Another mount may cover that path, which then shows something else; it is handled as a mount of its own.
      std::optional<Reached> there = reach(named->path);
      bool is_visible = there && there->mount == other.id && (!named->is_itself || there->is_same_node(*node));
      bool is_known = std::any_of(found.begin(), found.end(), [&](const Alias& a) { return a.path == named->path; });
      if (is_visible && !is_known) found.push_back({named->path, there->is_directory});
    }
  }
  return found;
}

}  // namespace warren
