#include "fs/overlay/base_moves.h"

#include <algorithm>
#include <unordered_map>

#include "base/below.h"
#include "base/limits.h"
#include "base/path.h"

namespace warren {
namespace {

bool is_same_type(const Attributes& a, const Attributes& b) { return ((a.mode ^ b.mode) & S_IFMT) == 0; }

bool is_absence(Code code) { return code == Code::kNotFound || code == Code::kNotDirectory || code == Code::kStale; }

Result<bool> has_made_rename(FileSystem& base, const MovedCopy& copy) {
  std::optional<Attributes> there = WARREN_TRY(find_in_tree(base, copy.place));
  if (!there || !is_same_type(*there, copy.seen)) return false;
  if (there->inode == copy.seen.inode) return true;
  std::optional<Attributes> origin = WARREN_TRY(find_in_tree(base, copy.base_path));
  return !origin || !is_same_type(*origin, copy.seen);
}

// The base path that each directory of the upper layer has by its name.
class NaturalPaths {
 public:
  NaturalPaths(FileSystem& upper, const std::vector<Origin>& rows) : upper_(upper) {
    for (const Origin& row : rows) {
      if (!row.base_path.empty()) shown_.emplace(row.upper, row.base_path);
    }
  }

  // nullopt for a directory without a name.
  Result<std::optional<std::string>> find(Inode dir, int depth = 0) {
    if (depth > limits::kTreeDepth) return Error(Code::kCorrupt, "the agent file has a directory loop");
    std::vector<EntryName> names = WARREN_TRY(upper_.list_names_of(dir));
    if (names.empty()) return std::optional<std::string>();
    const EntryName& name = names.front();
    if (name.parent == kRootInode) return std::optional(join_path("/", name.name));
    if (auto shown = shown_.find(name.parent); shown != shown_.end()) {
      return std::optional(join_path(shown->second, name.name));
    }
    std::optional<std::string> above = WARREN_TRY(find(name.parent, depth + 1));
    return above ? std::optional(join_path(*above, name.name)) : std::nullopt;
  }

 private:
  FileSystem& upper_;
  std::unordered_map<Inode, std::string> shown_;
};

// Finds the directories of many paths, of which neighbours have most directories above them in common.
class DirFinder {
 public:
  explicit DirFinder(FileSystem& base) : base_(base) {}
  ~DirFinder() { cut(0); }
  DirFinder(const DirFinder&) = delete;
  DirFinder& operator=(const DirFinder&) = delete;

  // nullopt if there is none.
  Result<std::optional<Inode>> find(std::string_view path) {
    if (path == "/") return std::optional(kRootInode);
    auto common = static_cast<std::size_t>(std::ranges::mismatch(path_, path).in2 - path.begin());
    auto is_above = [&](std::size_t end) { return end <= common && (end == path.size() || path[end] == '/'); };
    std::size_t kept = steps_.size();
    while (kept > 0 && !is_above(steps_[kept - 1].end)) --kept;
    cut(kept);
    path_ = path;
    while (steps_.empty() || steps_.back().end < path.size()) {
      std::size_t at = steps_.empty() ? 1 : steps_.back().end + 1;
      std::size_t end = std::min(path.find('/', at), path.size());
      Result<Attributes> next =
          base_.lookup(steps_.empty() ? kRootInode : steps_.back().dir, path.substr(at, end - at));
      if (!next.ok() && !is_absence(next.error().code())) return std::move(next).take_error();
      if (!next.ok() || !next->is_directory()) return std::optional<Inode>();
      WARREN_TRY(base_.retain(next->inode));
      steps_.push_back({end, next->inode});
    }
    return std::optional(steps_.back().dir);
  }

 private:
  struct Step {
    std::size_t end;  // of its path in path_
    Inode dir;
  };

  void cut(std::size_t count) {
    for (; steps_.size() > count; steps_.pop_back()) base_.forget(steps_.back().dir, 1);
  }

  FileSystem& base_;
  std::string path_;
  std::vector<Step> steps_;  // from the root down
};

Result<std::vector<MovedCopy>> find_lost_dirs(UpperLayer& upper, FileSystem& base, const std::vector<Origin>& rows) {
  std::vector<MovedCopy> lost;
  NaturalPaths natural(upper.fs(), rows);
  DirFinder dirs(base);
  for (const Origin& row : rows) {
    bool is_dir = row.seen && row.seen->is_directory() && !row.base_path.empty() && row.upper != kRootInode;
    if (!is_dir) continue;
    Result<std::optional<Inode>> there = dirs.find(row.base_path);
    if (!there.ok()) continue;  // it may be there: whoever looks into it gets the error
    if (*there == row.seen->inode) continue;
    std::optional<std::string> place = WARREN_TRY(natural.find(row.upper));
    if (place) lost.push_back({row.base_path, *std::move(place), *row.seen});
  }
  return lost;
}

}  // namespace

void BaseMoves::add_later(const BaseMoves& later) {
  BaseMoves before = *this;
  for (auto& [from, to] : moves_) to = later.find(to).value_or(to);
  for (const auto& [from, to] : later.all()) {
    std::string origin = from;
    for (const auto& [old_path, new_path] : before.all()) {
      if (is_at_or_below(from, new_path)) origin = old_path + from.substr(new_path.size());
    }
    moves_.insert_or_assign(std::move(origin), to);
  }
}

std::optional<std::string> BaseMoves::find(std::string_view base_path) const {
  if (moves_.empty()) return std::nullopt;
  for (std::string_view at = base_path; at.size() > 1; at = split_parent(at).parent) {
    auto moved = moves_.find(at);
    if (moved != moves_.end()) return moved->second + std::string(base_path.substr(at.size()));
  }
  return std::nullopt;
}

Result<std::optional<Attributes>> find_in_tree(FileSystem& base, std::string_view path) {
  Attributes found = WARREN_TRY(base.get_attributes(kRootInode));
  for (std::size_t at = 1; at < path.size();) {
    if (!found.is_directory()) return std::optional<Attributes>();
    std::size_t end = std::min(path.find('/', at), path.size());
    Result<Attributes> next = base.lookup(found.inode, path.substr(at, end - at));
    if (!next.ok()) {
      bool is_absent = is_absence(next.error().code());
      return is_absent ? Result<std::optional<Attributes>>(std::optional<Attributes>()) : std::move(next).take_error();
    }
    found = *next;
    at = end + 1;
  }
  return std::optional(found);
}

BaseMoves find_base_moves(FileSystem& base, const std::vector<MovedCopy>& copies,
                          const std::set<std::string, std::less<>>& base_paths) {
  BaseMoves moves;
  for (const MovedCopy& copy : copies) {
    if (copy.base_path == copy.place) continue;
    Result<bool> is_made = has_made_rename(base, copy);  // not if that cannot be seen
    if (is_made.ok() && *is_made) moves.add(copy.base_path, copy.place);
  }
  std::multimap<std::string, std::string, std::less<>> froms_of;
  std::vector<std::string> blocked;
  for (const auto& [from, to] : moves.all()) {
    if (!base_paths.contains(to)) continue;
    if (moves.contains(to)) froms_of.emplace(to, from);  // free as long as that one moves away
    else blocked.push_back(from);
  }
  while (!blocked.empty()) {
    std::string from = std::move(blocked.back());
    blocked.pop_back();
    moves.remove(from);
    auto [first, last] = froms_of.equal_range(from);
    for (auto waiting = first; waiting != last; ++waiting) blocked.push_back(waiting->second);
  }
  return moves;
}

Result<bool> follow(const BaseMoves& moves, FileSystem& base, Origin& row) {
  std::optional<std::string> now = moves.find(row.base_path);
  if (!now) return false;
  bool is_moved_dir = moves.contains(row.base_path) && row.seen && row.seen->is_directory();
  row.base_path = *std::move(now);
  if (!is_moved_dir) return true;
  std::optional<Attributes> there = WARREN_TRY(find_in_tree(base, row.base_path));
  if (!there || !there->is_directory()) return true;
  row.seen->inode = there->inode;
  row.seen->generation = there->generation;
  return true;
}

Result<BaseMoves> follow_moved_dirs(UpperLayer& upper, FileSystem& base, std::vector<Origin>& rows) {
  BaseMoves all;
  for (int round = 0; round < limits::kTreeDepth; ++round) {
    std::vector<MovedCopy> lost = WARREN_TRY(find_lost_dirs(upper, base, rows));
    if (lost.empty()) break;
    std::set<std::string, std::less<>> base_paths;
    for (const Origin& row : rows) base_paths.insert(row.base_path);
    BaseMoves moves = find_base_moves(base, lost, base_paths);
    if (moves.empty()) break;
    for (Origin& row : rows) WARREN_TRY(follow(moves, base, row));
    all.add_later(moves);
  }
  return all;
}

}  // namespace warren
