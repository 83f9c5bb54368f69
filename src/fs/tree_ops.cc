#include "fs/tree_ops.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "base/path.h"
#include "fs/list_dir.h"
#include "fs/mounts/mount_points.h"
#include "fs/stoppable_remove.h"
#include "fs/walked_dirs.h"

namespace warren {
namespace {

bool is_gone(const Error& error) { return error.code() == Code::kNotFound || error.code() == Code::kStale; }

struct Level {
  std::string path;
  std::vector<DirEntry> entries;
  std::size_t next = 0;
};

// The entries of a directory that the walk enters; none if it was removed by then.
Result<Level> enter(FileSystem& fs, std::string path, Inode dir) {
  Result<std::vector<DirEntry>> entries = list_dir(fs, dir, DirDetail::kAttributes);
  if (entries.ok()) return Level{.path = std::move(path), .entries = std::move(entries).take_value()};
  if (is_gone(entries.error())) return Level{.path = std::move(path), .entries = {}};
  return std::move(entries).take_error().within(fmt::format("read directory {}", quote_path(path)));
}

Result<WalkEntry> start_of(FileSystem& fs, std::string_view path, Follow follow) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kRead));
  Place place = WARREN_TRY(find_place(fs, path, {.follow = follow}));
  if (!place.node) return Error(Code::kNotFound, fmt::format("no {}", quote_path(path)));
  std::string from(path);
  if (!is_normal_path(path)) from = WARREN_TRY(normalise_path(path));
  return WalkEntry{.path = std::move(from), .attributes = *place.node};
}

// A directory to empty and remove, identified by its place in its parent.
struct Doomed {
  Inode parent;
  std::string name;
  Inode inode;
};

// Removes a tree from the leaves up without recursion: each round reads a page of the directory on top, removes what it
// can and pushes the directories. Entries already read are gone when the directory is read again, so every round starts
// at the beginning and no stream is kept.
class TreeRemover {
 public:
  TreeRemover(FileSystem& fs, std::string_view path, const std::function<Status()>& check)
      : fs_(fs), path_(path), check_(check) {}

  Status run(std::unique_ptr<Unit> unit, Doomed top) {
    unit_ = std::move(unit);
    WARREN_TRY(push(std::move(top)));
    while (!stack_.empty()) {
      std::vector<DirEntry> page = WARREN_TRY(first_page(stack_.back().inode));
      if (page.empty()) {
        WARREN_TRY(remove_top());
      } else {
        WARREN_TRY(remove_page(stack_.back().inode, page));
      }
    }
    return unit_->commit().within(doing("remove", path_));
  }

 private:
  // Small, because each level keeps a page of directories on the stack.
  static constexpr std::size_t kPage = 128;
  static constexpr int kFailuresInARow = 1000;

  Status push(Doomed dir) {
    bool is_new = on_stack_.insert(dir.inode).second;
    if (!is_new) WARREN_TRY(check_one_name(fs_, dir.inode, dir.name).within(doing("remove", path_)));
    stack_.push_back(std::move(dir));
    return Ok{};
  }

  Result<std::vector<DirEntry>> first_page(Inode dir) {
    Result<std::unique_ptr<DirStream>> stream = fs_.open_dir(dir);
    if (!stream.ok() && is_gone(stream.error())) return std::vector<DirEntry>();
    std::unique_ptr<DirStream> opened = WARREN_TRY(std::move(stream).within(doing("remove", path_)));
    return opened->read(0, kPage, DirDetail::kTypes).within(doing("remove", path_));
  }

  Status remove_page(Inode dir, const std::vector<DirEntry>& page) {
    for (const DirEntry& entry : page) {
      WARREN_TRY(check_stopped());
      if (entry.type == S_IFDIR) {
        WARREN_TRY(push({.parent = dir, .name = entry.name, .inode = entry.inode}));
      } else {
        WARREN_TRY(removed(fs_.unlink(dir, entry.name)));
      }
    }
    return Ok{};
  }

  Status remove_top() {
    WARREN_TRY(check_stopped());
    Doomed top = std::move(stack_.back());
    stack_.pop_back();
    on_stack_.erase(top.inode);
    Status status = fs_.remove_dir(top.parent, top.name);
    // Something may have been added meanwhile; or it is not gone, and only the right to remove it is missing.
    bool is_left = !status.ok() && (status.error().code() == Code::kNotEmpty ||
                                    (is_gone(status.error()) && fs_.lookup(top.parent, top.name).ok()));
    if (is_left) WARREN_TRY(push(std::move(top)));
    return removed(std::move(status));
  }

  Status check_stopped() {
    Status checked = check_ ? check_() : Status(Ok{});
    if (checked.ok()) return checked;
    WARREN_TRY(unit_->commit().within(doing("remove", path_)));
    Error why = std::move(checked).take_error();
    std::string_view what = gone_ == 1 ? "file or directory in it was" : "files and directories in it were";
    return Error(why.code(), fmt::format("{}; {} is still there, and {} {} removed", why.message(), quote_path(path_),
                                         gone_, what));
  }

  // What another has removed, or added, is no failure; but it must come to an end. A view can list what it refuses to
  // remove as not found, or refuse a directory for what it does not list.
  Status removed(Status status) {
    failures_ = status.ok() ? 0 : failures_ + 1;
    if (status.ok()) ++gone_;
    bool may_go_on = status.ok() || is_gone(status.error()) || status.error().code() == Code::kNotEmpty;
    if (!may_go_on || failures_ > kFailuresInARow) return std::move(status).within(doing("remove", path_));
    if (++count_ % limits::kRemoveUnit != 0) return Ok{};
    WARREN_TRY(unit_->commit().within(doing("remove", path_)));
    unit_.reset();  // let other writers in
    unit_ = WARREN_TRY(fs_.begin(UnitAccess::kWrite));
    return Ok{};
  }

  FileSystem& fs_;
  const std::string_view path_;
  const std::function<Status()>& check_;
  std::unique_ptr<Unit> unit_;
  std::vector<Doomed> stack_;
  std::unordered_set<Inode> on_stack_;
  std::size_t count_ = 0;
  std::size_t gone_ = 0;
  int failures_ = 0;  // since something could be removed
};

}  // namespace

Status walk(FileSystem& fs, std::string_view path, const WalkVisitor& visit, const WalkOptions& options) {
  WalkEntry start = WARREN_TRY(start_of(fs, path, options.follow));
  WalkNext next = WARREN_TRY(visit(start));
  if (next != WalkNext::kContinue || !start.attributes.is_directory()) return Ok{};
  WalkedDirs walked(fs);
  WARREN_TRY(walked.enter(start.attributes.inode, start.path));
  std::vector<Level> levels;
  Level first = WARREN_TRY(enter(fs, start.path, start.attributes.inode));
  levels.push_back(std::move(first));
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.entries.size()) {
      levels.pop_back();
      continue;
    }
    const DirEntry& found = level.entries[level.next++];
    WalkEntry entry{.path = join_path(level.path, found.name), .attributes = *found.attributes};
    next = WARREN_TRY(visit(entry));
    if (next == WalkNext::kStop) return Ok{};
    if (next == WalkNext::kSkip || !entry.attributes.is_directory()) continue;
    WARREN_TRY(walked.enter(entry.attributes.inode, entry.path));
    if (levels.size() >= static_cast<std::size_t>(options.depth_max)) {
      return Error(Code::kLimit,
                   fmt::format("{} is more than {} directories deep", quote_path(entry.path), options.depth_max));
    }
    Level deeper = WARREN_TRY(enter(fs, std::move(entry.path), entry.attributes.inode));
    levels.push_back(std::move(deeper));
  }
  return Ok{};
}

Status remove(FileSystem& fs, std::string_view path, const RemoveOptions& options) {
  return remove_stoppable(fs, path, options, {});
}

Status remove_stoppable(FileSystem& fs, std::string_view path, const RemoveOptions& options,
                        const std::function<Status()>& check) {
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kWrite));
  Result<Place> found = find_name(fs, path);
  bool is_missing = found.ok() ? !found->node : found.error().code() == Code::kNotFound;
  if (is_missing && options.force == Force::kYes) return Ok{};
  Place place = WARREN_TRY(std::move(found));
  if (!place.node) return Error(Code::kNotFound, fmt::format("no {}", quote_path(path)));
  if (place.node->is_directory()) {
    if (options.recursive == Recursive::kNo) {
      return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote_path(path)));
    }
    if (WARREN_TRY(leads_to_mount(fs, *place.node))) {
      Status refused = fs.remove_dir(place.parent, place.name);  // so that the refusal is recorded
      bool is_mount = refused.ok() || refused.error().code() == Code::kBusy;
      return is_mount ? Status(refuse_mount(path)) : std::move(refused).within(doing("remove", path));
    }
    Doomed top{.parent = place.parent, .name = place.name, .inode = place.node->inode};
    return TreeRemover(fs, path, check).run(std::move(unit), std::move(top));
  }
  WARREN_TRY(fs.unlink(place.parent, place.name).within(doing("remove", path)));
  return unit->commit().within(doing("remove", path));
}

}  // namespace warren
