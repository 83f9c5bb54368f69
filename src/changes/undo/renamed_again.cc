#include "changes/undo/renamed_again.h"

#include <optional>
#include <string_view>
#include <vector>

#include "base/below.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/upper/replace_origin.h"

namespace warren {

Status RenamedAgain::run() {
  Renamed renamed = WARREN_TRY(list_renamed());
  std::vector<std::string> places;
  for (const auto& [base_path, row] : renamed) {
    std::optional<Attributes> there = WARREN_TRY(base_.find(base_path));
    if (!there) continue;  // somebody has removed it since
    bool is_hidden = WARREN_TRY(hide(base_path, *there, *row));
    if (is_hidden) hidden_.insert(row->base_path);
    else if (!there->is_directory()) WARREN_TRY(make_addition(*row, base_path, *there));
    else continue;
    places.push_back(row->base_path);
  }
  WARREN_TRY(follow_rows());
  WARREN_TRY(follow_covers());
  for (const std::string& place : places) WARREN_TRY(cover(back_path_of(place, split_parent(place).parent)));
  return edit_.tidy(InUse::kYes);
}

Result<RenamedAgain::Renamed> RenamedAgain::list_renamed() {
  Renamed renamed;
  for (const auto& [upper, row] : tree_.origins()) {
    auto back = undone_.renamed_back().find(row.base_path);
    if (back == undone_.renamed_back().end() || !row.seen) continue;
    // If names were exchanged, the path of a row that has followed already is also one that the apply gave.
    std::optional<Attributes> there = WARREN_TRY(base_.find(row.base_path));
    bool has_followed = there && there->inode == row.seen->inode;
    const UpperNode* own = tree_.find(back->second);
    bool is_back = own != nullptr && own->node.inode == upper;  // the agent has it under the old name, too
    // In a directory that took the other one's name: its row stays, but it may have to be hidden under the other name.
    bool has_same_path = back->second == row.base_path;
    if (has_same_path || (!has_followed && !is_back)) renamed.emplace(back->second, &row);
  }
  return renamed;
}

// False if that is impossible: its row would then be about something else.
Result<bool> RenamedAgain::hide(const std::string& base_path, const Attributes& there, const Origin& row) {
  // The other names of a file lead to the copy, and must not if the undo has put another file there.
  bool is_other = !there.is_directory() && there.nlink != 1 && there.inode != row.seen->inode;
  if (is_other) return false;
  std::optional<UndoneBase::Known> known = undone_.find_known(base_path, there, row.seen);
  Attributes seen = known ? *known->seen : *row.seen;
  std::string path = shown_path_of(base_path);
  const UpperNode* own = tree_.find(path);
  if (own != nullptr && !own->is_nameless) return cover_with(*own, base_path, seen);
  if (!is_hidden_above(base_path)) WARREN_TRY(edit_.add_whiteout(path, base_path, seen));
  return true;
}

// The agent has something else at the old name: that is not a copy of what is there again, but covers it.
Result<bool> RenamedAgain::cover_with(const UpperNode& own, const std::string& base_path, const Attributes& seen) {
  const Origin* row = own.origin;
  Inode upper = own.node.inode;
  bool is_copy = row != nullptr && !row->base_path.empty();
  bool is_moved = is_copy && (row->base_path != own.place || undone_.renamed_back().contains(row->base_path));
  if (own.node.is_directory()) {
    if (!is_moved) WARREN_TRY(make_opaque(own));
  } else if (is_copy && !is_moved) {
    std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(upper));
    if (!in_base.empty()) return false;
    WARREN_TRY(overlay_.upper.remove_origin(upper));
    dropped_.insert(upper);
  } else if (own.is_kept_new()) {
    WARREN_TRY(overlay_.upper.remove_origin(upper));
  }
  WARREN_TRY(overlay_.upper.put_cover({.base_path = base_path, .seen = seen, .at = {}}));
  return true;
}

// The directory shows nothing of the base, and what is new in it is new again.
Status RenamedAgain::make_opaque(const UpperNode& dir) {
  dropped_.insert(dir.node.inode);
  WARREN_TRY(overlay_.upper.put_origin({.upper = dir.node.inode, .base_path = "", .seen = {}}));
  for (const UpperNode& node : tree_.nodes()) {
    bool is_inside = node.path != dir.path && is_at_or_below(node.path, dir.path) && node.origin != nullptr;
    if (!is_inside) continue;
    bool is_new_dir = node.node.is_directory() && node.origin->base_path == node.place &&
                      !is_renamed_below(node.origin->base_path, dir.place);
    if (!is_new_dir && !node.is_kept_new()) continue;
    dropped_.insert(node.node.inode);
    WARREN_TRY(overlay_.upper.remove_origin(node.node.inode));
  }
  return Ok{};
}

// Whether the apply had moved it there, or a directory above it that is inside this one.
bool RenamedAgain::is_renamed_below(const std::string& base_path, const std::string& dir) const {
  for (std::string_view at = base_path; at.size() > dir.size(); at = split_parent(at).parent) {
    if (undone_.renamed_back().contains(std::string(at))) return true;
  }
  return false;
}

Status RenamedAgain::make_addition(const Origin& row, const std::string& base_path, const Attributes& there) {
  bool is_whole = WARREN_TRY(copy_rest(row, base_path, there));
  if (!is_whole) return Ok{};  // a part of it has been changed in the base since: it must stay a copy
  dropped_.insert(row.upper);
  return overlay_.upper.remove_origin(row.upper);
}

// The part of a large file that is only in the base.
Result<bool> RenamedAgain::copy_rest(const Origin& row, const std::string& base_path, const Attributes& there) {
  std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(row.upper));
  if (in_base.empty()) return true;
  if (!undone_.has_written(base_path, there)) return false;
  std::uint64_t size = 0;
  for (const ByteRange& range : in_base) size += range.end - range.begin;
  WARREN_TRY(overlay_.upper.reserve(size));
  FileSystem& upper = overlay_.upper.fs();
  Attributes before = WARREN_TRY(upper.get_attributes(row.upper));
  std::string part;
  for (const ByteRange& range : in_base) {
    for (std::uint64_t at = range.begin; at < range.end; at += part.size()) {
      part.resize(std::min<std::uint64_t>(limits::kCopyBytes, range.end - at));
      part.resize(WARREN_TRY(overlay_.base.read(there.inode, at, as_mutable_bytes(part))));
      if (part.empty()) return false;
      WARREN_TRY(upper.write(row.upper, at, as_bytes(part)));
    }
  }
  WARREN_TRY(overlay_.upper.set_base_ranges(row.upper, {}));
  WARREN_TRY(overlay_.upper.restore(row.upper, before));
  return true;
}

Status RenamedAgain::follow_rows() {
  for (const auto& [upper, row] : tree_.origins()) {
    std::string base_path = dropped_.contains(upper) ? row.base_path : back_path_of(row.base_path, row.base_path);
    if (base_path == row.base_path) continue;
    Origin follows = row;
    follows.base_path = std::move(base_path);
    WARREN_TRY(follow(std::move(follows)));
  }
  return Ok{};
}

// A file that was changed, too, is compared with what the undo put back.
Status RenamedAgain::follow(Origin origin) {
  std::optional<Attributes> there = WARREN_TRY(base_.find(origin.base_path));
  bool is_pair = there && origin.seen && !there->is_directory() && ((there->mode ^ origin.seen->mode) & S_IFMT) == 0;
  auto known = is_pair ? undone_.find_known(origin.base_path, there, origin.seen) : std::nullopt;
  if (!known || is_as_seen(*known->seen, *origin.seen)) return overlay_.upper.put_origin(origin);
  std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(origin.upper));
  bool is_incomplete = !in_base.empty() && !is_as_seen(*known->seen, *there);  // what it lacks may not be there
  if (is_incomplete) return overlay_.upper.put_origin(origin);
  origin.seen = known->seen;
  origin.seen->ctime = {};  // the agent's node is another one
  return replace_origin(overlay_, origin, origin.base_path);
}

// All old names are removed first: the new name of one may be the old name of another.
Status RenamedAgain::follow_covers() {
  std::vector<Cover> moved;
  for (const auto& [place, row] : tree_.covers()) {
    std::string base_path = back_path_of(place, split_parent(place).parent);
    if (base_path == place) continue;
    WARREN_TRY(overlay_.upper.remove_cover(place));
    moved.push_back({.base_path = std::move(base_path), .seen = row.seen, .at = row.at});
  }
  for (const Cover& one : moved) WARREN_TRY(overlay_.upper.put_cover(one));
  return Ok{};
}

// What had the new name before the apply has it again, or nothing has, and the agent's node covers that.
Status RenamedAgain::cover(const std::string& place) {
  std::optional<Attributes> there = WARREN_TRY(base_.find(place));
  std::optional<UndoneBase::Known> known = undone_.find_known(place, there, {});
  return known ? overlay_.upper.put_cover({.base_path = place, .seen = known->seen, .at = {}}) : Status(Ok{});
}

// Where the merged tree will show that name: below a directory that is renamed again, it is under the new path.
std::string RenamedAgain::shown_path_of(const std::string& base_path) const {
  for (std::string_view at = split_parent(base_path).parent; at.size() > 1; at = split_parent(at).parent) {
    const std::string* place = undone_.find_renamed(std::string(at));
    if (place != nullptr && hidden_.contains(*place)) return tree_.path_of(*place + base_path.substr(at.size()));
  }
  return tree_.path_of(base_path);
}

// Whether the name does not show because a directory above it does not.
bool RenamedAgain::is_hidden_above(const std::string& base_path) const {
  std::string_view parent = split_parent(base_path).parent;
  for (std::string_view at = parent; at.size() > 1; at = split_parent(at).parent) {
    const std::string* place = undone_.find_renamed(std::string(at));
    if (place != nullptr && hidden_.contains(*place)) return false;
  }
  return tree_.is_gone(parent);
}

// The path that a node has again which was at this path of the base after the apply, if it or a directory above it,
// from `from` on, is renamed again.
std::string RenamedAgain::back_path_of(const std::string& base_path, std::string_view from) const {
  std::string_view at = from;
  while (at.size() > 1 && !undone_.renamed_back().contains(std::string(at))) at = split_parent(at).parent;
  if (!hidden_.contains(std::string(at))) return base_path;
  return undone_.renamed_back().at(std::string(at)) + base_path.substr(at.size());
}

}  // namespace warren
