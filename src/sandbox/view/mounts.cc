#include "sandbox/view/mounts.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren::mounts {
namespace {

Status set(int dir, const char* path, unsigned flags, std::uint64_t attributes, const std::string& name) {
  mount_attr wanted{};
  wanted.attr_set = attributes;
  if (::mount_setattr(dir, path, flags, &wanted, sizeof wanted) == 0) return Ok{};
  return system_error(errno, fmt::format("restrict {}", quote(name)));
}

unsigned recursion(Depth depth) { return depth == Depth::kTree ? unsigned{AT_RECURSIVE} : 0U; }

// Newer than Debian 12's headers.
constexpr unsigned kBeneath = 0x200;  // MOVE_MOUNT_BENEATH

Status move(const Fd& tree, const std::string& path, unsigned flags) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  Fd target(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
  if (!target.is_open()) return system_error(errno, fmt::format("mount on {}", quote(path)));
  constexpr unsigned kByFds = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (::move_mount(tree.get(), "", target.get(), "", kByFds | flags) == 0) return Ok{};
  return system_error(errno, fmt::format("mount on {}", quote(path)));
}

}  // namespace

Result<Fd> clone_tree(const std::string& path, Depth depth) {
  unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursion(depth);
  Fd tree(::open_tree(AT_FDCWD, path.c_str(), flags));
  if (!tree.is_open()) return system_error(errno, fmt::format("take {} along", quote(path)));
  return tree;
}

Result<Fd> clone_entry(const Fd& dir, const std::string& name) {
  unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
  Fd tree(::open_tree(dir.get(), name.c_str(), flags));
  if (!tree.is_open()) return system_error(errno, fmt::format("take {} along", quote(name)));
  return tree;
}

Status set_attributes(const std::string& path, std::uint64_t attributes, Depth depth) {
  return set(AT_FDCWD, path.c_str(), recursion(depth), attributes, path);
}

Status set_attributes(const Fd& tree, std::uint64_t attributes, Depth depth) {
  return set(tree.get(), "", AT_EMPTY_PATH | recursion(depth), attributes, "a mount");
}

Result<Fd> make_filesystem(const std::string& type, const std::string& options, std::uint64_t attributes,
                           const std::string& source) {
  Fd context(::fsopen(type.c_str(), FSOPEN_CLOEXEC));
  if (!context.is_open()) return system_error(errno, fmt::format("make a {}", type));
  bool has_source = !source.empty();
  if (has_source && ::fsconfig(context.get(), FSCONFIG_SET_STRING, "source", source.c_str(), 0) != 0) {
    return system_error(errno, fmt::format("make a {}", type));
  }
  std::string_view rest = options;
  while (!rest.empty()) {
    std::string one(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    std::size_t equals = one.find('=');
    std::string key = one.substr(0, equals);
    int failed = equals == one.npos
                     ? ::fsconfig(context.get(), FSCONFIG_SET_FLAG, key.c_str(), nullptr, 0)
                     : ::fsconfig(context.get(), FSCONFIG_SET_STRING, key.c_str(), one.c_str() + equals + 1, 0);
    if (failed != 0) return system_error(errno, fmt::format("make a {} with {}", type, one));
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return system_error(errno, fmt::format("make a {}", type));
  }
  Fd tree(::fsmount(context.get(), FSMOUNT_CLOEXEC, static_cast<unsigned>(attributes)));
  if (!tree.is_open()) return system_error(errno, fmt::format("make a {}", type));
  return tree;
}

Status attach(const Fd& tree, const std::string& path) { return move(tree, path, 0); }

Status attach_beneath(const Fd& tree, const std::string& path) { return move(tree, path, kBeneath); }

bool is_mount(const std::string& path) {
  struct statx info {};
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  return ::statx(AT_FDCWD, path.c_str(), flags, 0, &info) == 0 && (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Status restrict_in_place(const std::string& path, std::uint64_t attributes) {
  Fd tree = WARREN_TRY(clone_tree(path, Depth::kTree));
  WARREN_TRY(set_attributes(tree, attributes, Depth::kTree));
  return attach(tree, path);
}

Status make_target(const std::string& path, bool is_directory) {
  if (WARREN_TRY(find_host_link(path))) return Ok{};
  if (is_directory) return make_host_dirs(path, 0755);
  WARREN_TRY(make_host_dirs(std::string(split_parent(path).parent), 0755));
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return system_error(errno, fmt::format("make {}", quote(path)));
  return Ok{};
}

}  // namespace warren::mounts
