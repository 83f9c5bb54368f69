#include "sandbox/view/listed_dir.h"

#include <cerrno>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/dir_reader.h"
#include "os/files/host_files.h"
#include "sandbox/view/mounts.h"

namespace warren {
namespace {

using mounts::Depth;

constexpr std::size_t kNamesMax = 8192;  // each is a mount

// At most `max` names.
Result<std::vector<std::string>> list_names(const Fd& dir, std::size_t max) {
  DirReader reader = WARREN_TRY(DirReader::open(dir.get()));
  std::vector<std::string> names;
  while (names.size() < max) {
    const DirReader::Entry* entry = WARREN_TRY(reader.next());
    if (entry == nullptr) break;
    names.emplace_back(entry->name);
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<ListedDir>> ListedDir::make(const std::string& path, Names names, DirWatch* watch) {
  Result<Fd> host = open_host_dir(path);
  if (!host.ok()) return std::unique_ptr<ListedDir>();
  std::optional<int> watch_id = watch != nullptr ? watch->add(host->get()) : std::nullopt;  // before it is read
  Result<std::vector<std::string>> found = list_names(*host, kNamesMax + 1);
  if (!found.ok() || found->size() > kNamesMax) return std::unique_ptr<ListedDir>();
  struct stat info {};
  if (::fstat(host->get(), &info) != 0) return system_error(errno, fmt::format("stat {}", quote(path)));
  std::string options = fmt::format("mode={:o}", info.st_mode & 07777U);
  if (::geteuid() == 0) options += fmt::format(",uid={},gid={}", info.st_uid, info.st_gid);
  Fd cover = WARREN_TRY(mounts::make_filesystem("tmpfs", options, mounts::kNoSuid | mounts::kNoDev));
  WARREN_TRY(mounts::attach(cover, path));
  // Whoever enters the mount namespace begins at the topmost root; only this process is still in the one below.
  bool is_root = path == "/";
  if (is_root && (::fchdir(cover.get()) != 0 || ::chroot(".") != 0)) return system_error(errno, "enter a new root");
  Fd own = WARREN_TRY(mounts::clone_tree(path, Depth::kOne));
  std::unique_ptr<ListedDir> dir(new ListedDir(path, std::move(host).take_value(), std::move(own), std::move(names)));
  dir->watch_id_ = watch_id;
  dir->known_.insert(found->begin(), found->end());
  for (const std::string& name : *found) {
    if (!dir->names_.left_out.contains(name)) WARREN_TRY(dir->show(name));
  }
  return dir;
}

void ListedDir::follow(const std::string& name) {
  if (!known_.contains(name) || names_.left_out.contains(name) || names_.fixed.contains(name)) return;
  Status shown = show(name);
  if (shown.ok()) return;
  shown.ignore("the name is missing until the host changes it again");
  remove(name);
}

void ListedDir::follow_all() {
  for (const std::string& name : known_) follow(name);
}

Status ListedDir::show(const std::string& name) {
  Result<Fd> tree = mounts::clone_entry(host_, name);
  struct stat info {};
  if (!tree.ok() || ::fstat(tree->get(), &info) != 0) {  // removed meanwhile, or a mount whose server is dead
    remove(name);
    return Ok{};
  }
  bool is_hidden = names_.hidden_nodes.contains({info.st_dev, info.st_ino}) && !names_.fixed.contains(name);
  if (is_hidden) {
    remove(name);
    return Ok{};
  }
  Entry now{.device = info.st_dev, .inode = info.st_ino, .type = info.st_mode & S_IFMT, .target = {}};
  bool is_link = now.type == S_IFLNK;
  if (is_link) {
    Result<std::string> target = read_host_link_below(host_.get(), name);
    if (!target.ok()) {
      remove(name);
      return Ok{};
    }
    now.target = std::move(target).take_value();
  }
  auto known = shown_.find(name);
  bool is_known = known != shown_.end();
  if (is_known && known->second == now) return Ok{};
  bool fits =
      is_known && !is_link && known->second.type != S_IFLNK && (now.type == S_IFDIR) == (known->second.type == S_IFDIR);
  if (fits) {
    known->second = std::move(now);
    return exchange(*tree, name);
  }
  remove(name);
  if (shown_.size() >= kNamesMax) return Error(Code::kLimit, "there are too many names");
  WARREN_TRY(make_target(name, now));
  shown_[name] = std::move(now);
  return is_link ? Status(Ok{}) : mounts::attach(*tree, join_path(path_, name));
}

// Mounts the new tree beneath the old mount and then removes that, so that the name always shows one of them. A kernel
// that does not support that (before 6.5) shows an empty file or directory in between.
Status ListedDir::exchange(const Fd& tree, const std::string& name) {
  std::string path = join_path(path_, name);
  bool is_below = mounts::attach_beneath(tree, path).ok();
  if (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) return system_error(errno, "unmount an entry");
  return is_below ? Status(Ok{}) : mounts::attach(tree, path);
}

// Creates a link itself, or an empty mount point.
Status ListedDir::make_target(const std::string& name, const Entry& entry) {
  int failed = 0;
  if (entry.type == S_IFLNK) {
    failed = ::symlinkat(entry.target.c_str(), own_.get(), name.c_str());
  } else if (entry.type == S_IFDIR) {
    failed = ::mkdirat(own_.get(), name.c_str(), 0755);
  } else {
    Fd file(::openat(own_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    failed = file.is_open() ? 0 : -1;
  }
  if (failed == 0) return Ok{};
  return system_error(errno, fmt::format("make {}", quote(name)));
}

void ListedDir::remove(const std::string& name) {
  auto known = shown_.find(name);
  if (known == shown_.end()) return;
  if (known->second.type != S_IFLNK) ::umount2(join_path(path_, name).c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  ::unlinkat(own_.get(), name.c_str(), known->second.type == S_IFDIR ? AT_REMOVEDIR : 0);
  shown_.erase(known);
}

}  // namespace warren
