#include "os/files/copy_tree.h"

#include <cerrno>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

Result<std::vector<HostEntry>> list_in(HostTree& tree, std::string_view dir) {
  while (dir.starts_with('/')) dir.remove_prefix(1);
  Fd fd = WARREN_TRY(open_host_dir_below(tree.top(), dir));
  return list_host_dir(fd.get());
}

struct Place {
  Fd dir;
  std::string name;
};

Result<Place> open_place(HostTree& tree, std::string_view path) {
  SplitParent parts = split_parent(path);
  std::string_view dir = parts.parent.substr(parts.parent.starts_with('/') ? 1 : 0);
  Fd opened = WARREN_TRY(open_host_dir_below(tree.top(), dir));
  return Place{.dir = std::move(opened), .name = std::string(parts.name)};
}

Status copy_node(HostTree& from, const std::string& path, const struct stat& info, HostTree& to,
                 const std::string& target) {
  if (S_ISDIR(info.st_mode)) return to.make_dir(target, 0700);
  if (S_ISLNK(info.st_mode)) {
    std::string leads_to = WARREN_TRY(from.read_link(path));
    return to.make_symlink(target, leads_to);
  }
  if (!S_ISREG(info.st_mode)) return to.make_special(target, info.st_mode, info.st_rdev);
  Fd source = WARREN_TRY(from.open_file(path, O_RDONLY));
  Fd copy = WARREN_TRY(to.create_file(target));
  WARREN_TRY(copy_host_content(source.get(), copy.get()).within(quote(path)));
  return Ok{};
}

}  // namespace

Status copy_tree(HostTree& from, std::string_view path, HostTree& to, std::string_view target,
                 const std::unordered_set<std::string>& skipped) {
  struct stat top = WARREN_TRY(from.get(path));
  struct Item {
    std::string path;
    std::string target;
    struct stat info;
  };
  std::vector<Item> pending{{std::string(path), std::string(target), top}};
  std::map<std::pair<dev_t, ino_t>, std::string> linked;  // files with several names → where they are
  std::vector<Item> dirs;  // get their metadata last: a mode may forbid writing, and times change with each entry
  while (!pending.empty()) {
    Item item = std::move(pending.back());
    pending.pop_back();
    bool may_be_linked = !S_ISDIR(item.info.st_mode) && item.info.st_nlink > 1;
    if (may_be_linked) {
      auto [first, is_new] = linked.emplace(std::pair(item.info.st_dev, item.info.st_ino), item.target);
      if (!is_new) {
        WARREN_TRY(to.link(first->second, item.target));
        continue;
      }
    }
    WARREN_TRY(copy_node(from, item.path, item.info, to, item.target));
    if (!S_ISDIR(item.info.st_mode)) {
      HostMetadata metadata = WARREN_TRY(from.get_metadata(item.path));
      WARREN_TRY(to.set_metadata(item.target, metadata));
      continue;
    }
    std::vector<HostEntry> entries = WARREN_TRY(list_in(from, item.path));
    for (const HostEntry& entry : entries) {
      std::string below = join_path(item.path, entry.name);
      if (skipped.contains(below)) continue;
      pending.push_back({std::move(below), join_path(item.target, entry.name), entry.attributes});
    }
    dirs.push_back(std::move(item));
  }
  for (auto dir = dirs.rbegin(); dir != dirs.rend(); ++dir) {
    HostMetadata metadata = WARREN_TRY(from.get_metadata(dir->path));
    WARREN_TRY(to.set_metadata(dir->target, metadata));
  }
  return Ok{};
}

Result<bool> can_move_between(HostTree& from, std::string_view dir, HostTree& to) {
  std::string probe = join_path(dir, "probe");
  WARREN_TRY(from.create_file(probe));
  Fd source = WARREN_TRY(open_host_dir_below(from.top(), dir.substr(dir.starts_with('/') ? 1 : 0)));
  bool is_moved = ::renameat(source.get(), "probe", to.top(), "probe") == 0;
  int failure = errno;
  WARREN_TRY(is_moved ? to.remove_file("/probe") : from.remove_file(probe));
  if (is_moved || failure == EXDEV) return is_moved;
  return system_error(failure, "move a file there");
}

Status move_between(HostTree& from, std::string_view path, HostTree& to, std::string_view target) {
  Place source = WARREN_TRY(open_place(from, path));
  Place goal = WARREN_TRY(open_place(to, target));
  if (::renameat2(source.dir.get(), source.name.c_str(), goal.dir.get(), goal.name.c_str(), RENAME_NOREPLACE) == 0)
    return Ok{};
  // Some filesystems cannot rename without replacing; the caller has found the name free.
  bool is_moved =
      errno == EINVAL && ::renameat(source.dir.get(), source.name.c_str(), goal.dir.get(), goal.name.c_str()) == 0;
  return is_moved ? Status(Ok{}) : Status(system_error(errno, fmt::format("move {}", quote(path))));
}

Status link_between(HostTree& from, std::string_view path, HostTree& to, std::string_view target) {
  Place source = WARREN_TRY(open_place(from, path));
  Place goal = WARREN_TRY(open_place(to, target));
  if (::linkat(source.dir.get(), source.name.c_str(), goal.dir.get(), goal.name.c_str(), 0) == 0) return Ok{};
  return system_error(errno, fmt::format("link {}", quote(path)));
}

Result<TreeSize> measure_tree(HostTree& tree, std::string_view path, const std::unordered_set<std::string>& skipped) {
  struct stat top = WARREN_TRY(tree.get(path));
  TreeSize size;
  auto add = [&](const struct stat& node) {
    size.bytes += static_cast<std::uint64_t>(node.st_blocks) * 512U;
    size.has_hard_links = size.has_hard_links || (!S_ISDIR(node.st_mode) && node.st_nlink > 1);
  };
  add(top);
  std::vector<std::string> pending;
  if (S_ISDIR(top.st_mode)) pending.emplace_back(path);
  while (!pending.empty()) {
    std::string dir = std::move(pending.back());
    pending.pop_back();
    std::vector<HostEntry> entries = WARREN_TRY(list_in(tree, dir));
    for (const HostEntry& entry : entries) {
      std::string below = join_path(dir, entry.name);
      if (skipped.contains(below)) continue;
      add(entry.attributes);
      if (S_ISDIR(entry.attributes.st_mode)) pending.push_back(std::move(below));
    }
  }
  return size;
}

Result<std::vector<TreeEntry>> list_tree(HostTree& tree, std::string_view dir) {
  std::vector<TreeEntry> all;
  std::vector<std::string> pending{std::string(dir)};
  while (!pending.empty()) {
    std::string at = std::move(pending.back());
    pending.pop_back();
    std::vector<HostEntry> entries = WARREN_TRY(list_in(tree, at));
    for (const HostEntry& entry : entries) {
      all.push_back({join_path(at, entry.name), entry.attributes});
      if (S_ISDIR(entry.attributes.st_mode)) pending.push_back(all.back().path);
    }
  }
  return all;
}

}  // namespace warren
