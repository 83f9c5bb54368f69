#include "changes/selection.h"

#include <algorithm>

#include "base/path.h"
#include "changes/upper/tree_finder.h"

namespace warren {

Selection::Selection(const std::vector<TreeChange>& all) : all_(all), taken_(all.size(), false) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TreeChange& change = all[i];
    if (change.after && !change.place.empty()) by_place_.emplace(change.place, i);
    bool leaves = change.kind == TreeChangeKind::kDeleted || change.kind == TreeChangeKind::kRenamed;
    if (leaves) by_base_path_.emplace(change.base_path, i);
    if (change.kind == TreeChangeKind::kRenamed) moved_from_.emplace(change.base_path, i);
  }
}

void Selection::take(std::size_t index) {
  if (taken_[index]) return;
  taken_[index] = true;
  pending_.push_back(index);
}

void Selection::leave(std::size_t index) { taken_[index] = false; }

// Not those that were left meanwhile.
std::optional<std::size_t> Selection::next_pending() {
  while (!pending_.empty()) {
    std::size_t index = pending_.back();
    pending_.pop_back();
    if (taken_[index]) return index;
  }
  return std::nullopt;
}

void Selection::take_if(const ChangeFilter& filter) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    bool is_renamed = all_[i].kind == TreeChangeKind::kRenamed;
    if (!filter || filter(all_[i].path) || (is_renamed && filter(all_[i].base_path))) take(i);
  }
}

Selection::Indexes Selection::with_path(std::string_view path) const {
  auto first = std::lower_bound(all_.begin(), all_.end(), path,
                                [](const TreeChange& change, std::string_view wanted) { return change.path < wanted; });
  Indexes found;
  for (auto it = first; it != all_.end() && it->path == path; ++it) {
    found.push_back(static_cast<std::size_t>(it - all_.begin()));
  }
  return found;
}

// Paths are sorted by bytes, so everything below "/a" is between "/a/" and "/a0".
Selection::Indexes Selection::list_below(std::string_view dir) const {
  std::string from = dir == "/" ? "/" : std::string(dir) + "/";
  auto first = std::lower_bound(all_.begin(), all_.end(), from,
                                [](const TreeChange& change, std::string_view wanted) { return change.path < wanted; });
  Indexes found;
  for (auto it = first; it != all_.end() && it->path.starts_with(from); ++it) {
    found.push_back(static_cast<std::size_t>(it - all_.begin()));
  }
  return found;
}

// All changes of the path of the nearest directory above that the agent has made. That one needs those above it.
Selection::Indexes Selection::list_made_above(std::string_view path) const {
  while (path != "/") {
    path = split_parent(path).parent;
    Indexes at = with_path(path);
    bool has_made_dir = std::ranges::any_of(at, [&](std::size_t index) {
      bool is_made = all_[index].kind == TreeChangeKind::kAdded || all_[index].kind == TreeChangeKind::kRenamed;
      return is_made && all_[index].after->is_directory();
    });
    if (has_made_dir) return at;
  }
  return {};
}

Selection::Indexes Selection::list_at_place(std::string_view base_path) const {
  Indexes found;
  auto [first, last] = by_place_.equal_range(base_path);
  for (auto it = first; it != last; ++it) found.push_back(it->second);
  return found;
}

// Nodes that the agent moved out of a directory must leave it before the directory is deleted.
Selection::Indexes Selection::list_moved_from(const std::string& base_dir) const {
  std::string from = base_dir + "/";
  Indexes found;
  for (auto it = moved_from_.lower_bound(from); it != moved_from_.end() && it->first.starts_with(from); ++it) {
    found.push_back(it->second);
  }
  return found;
}

// Nodes at the paths of the base's directories above a name: those directories must show again.
Selection::Indexes Selection::list_covers(std::string_view base_path) const {
  Indexes found;
  while (base_path != "/") {
    base_path = split_parent(base_path).parent;
    for (std::size_t index : list_at_place(base_path)) {
      TreeChangeKind kind = all_[index].kind;
      if (kind == TreeChangeKind::kAdded || kind == TreeChangeKind::kRenamed) found.push_back(index);
    }
  }
  return found;
}

void Selection::take_all(const Indexes& indexes) {
  for (std::size_t index : indexes) take(index);
}

void Selection::complete_for_discard() {
  while (std::optional<std::size_t> index = next_pending()) {
    const TreeChange& change = all_[*index];
    take_all(with_path(change.path));
    bool is_dir = change.node().is_directory();
    if (is_dir && change.kind != TreeChangeKind::kModified) take_all(list_below(change.path));
    if (change.kind == TreeChangeKind::kRenamed) take_all(list_at_place(change.base_path));
    bool returns = change.kind == TreeChangeKind::kRenamed || change.kind == TreeChangeKind::kDeleted;
    if (returns) take_all(list_covers(change.base_path));
  }
}

Selection::Indexes Selection::list_needed(std::size_t index) const {
  const TreeChange& change = all_[index];
  if (change.kind == TreeChangeKind::kDeleted) {
    if (!change.node().is_directory()) return {};
    Indexes needed = list_below(change.path);
    Indexes moved = list_moved_from(change.base_path);
    needed.insert(needed.end(), moved.begin(), moved.end());
    return needed;
  }
  Indexes needed = list_made_above(change.path);
  if (change.kind == TreeChangeKind::kModified || change.place.empty()) return needed;
  auto [first, last] = by_base_path_.equal_range(change.place);
  for (auto it = first; it != last; ++it) needed.push_back(it->second);
  return needed;
}

void Selection::complete_for_apply() {
  while (std::optional<std::size_t> index = next_pending()) take_all(list_needed(*index));
}

std::vector<TreeChange> Selection::list() const {
  std::vector<TreeChange> chosen;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (taken_[i]) chosen.push_back(all_[i]);
  }
  return chosen;
}

}  // namespace warren
