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

void Selection::take_if(const ChangeFilter& filter) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    bool is_renamed = all_[i].kind == TreeChangeKind::kRenamed;
    if (!filter || filter(all_[i].path) || (is_renamed && filter(all_[i].base_path))) take(i);
  }
}

std::vector<std::size_t> Selection::with_path(std::string_view path) const {
  auto first = std::lower_bound(all_.begin(), all_.end(), path,
                                [](const TreeChange& change, std::string_view wanted) { return change.path < wanted; });
  std::vector<std::size_t> found;
  for (auto it = first; it != all_.end() && it->path == path; ++it) {
    found.push_back(static_cast<std::size_t>(it - all_.begin()));
  }
  return found;
}

void Selection::take_path(std::string_view path) {
  for (std::size_t index : with_path(path)) take(index);
}

// Paths are sorted by bytes, so everything below "/a" is between "/a/" and "/a0".
void Selection::take_below(std::string_view dir) {
  std::string from = dir == "/" ? "/" : std::string(dir) + "/";
  auto first = std::lower_bound(all_.begin(), all_.end(), from,
                                [](const TreeChange& change, std::string_view wanted) { return change.path < wanted; });
  for (auto it = first; it != all_.end() && it->path.starts_with(from); ++it) {
    take(static_cast<std::size_t>(it - all_.begin()));
  }
}

void Selection::take_above(std::string_view path) {
  while (path != "/") {
    path = split_parent(path).parent;
    for (std::size_t index : with_path(path)) {
      bool is_made = all_[index].kind == TreeChangeKind::kAdded || all_[index].kind == TreeChangeKind::kRenamed;
      if (is_made && all_[index].after->is_directory()) take_path(path);
    }
  }
}

void Selection::take_place(const std::string& base_path) {
  auto [first, last] = by_place_.equal_range(base_path);
  for (auto it = first; it != last; ++it) take(it->second);
}

// Nodes that the agent moved out of a directory must leave it before the directory is deleted.
void Selection::take_moved_from(const std::string& base_dir) {
  std::string from = base_dir + "/";
  for (auto it = moved_from_.lower_bound(from); it != moved_from_.end() && it->first.starts_with(from); ++it) {
    take(it->second);
  }
}

// Takes nodes at the paths of the base's directories above a name: those directories must show again.
void Selection::take_covers(std::string_view base_path) {
  while (base_path != "/") {
    base_path = split_parent(base_path).parent;
    auto [first, last] = by_place_.equal_range(base_path);
    for (auto it = first; it != last; ++it) {
      TreeChangeKind kind = all_[it->second].kind;
      if (kind == TreeChangeKind::kAdded || kind == TreeChangeKind::kRenamed) take(it->second);
    }
  }
}

void Selection::complete_for_discard() {
  while (!pending_.empty()) {
    const TreeChange& change = all_[pending_.back()];
    pending_.pop_back();
    take_path(change.path);
    bool is_dir = change.node().is_directory();
    if (is_dir && change.kind != TreeChangeKind::kModified) take_below(change.path);
    if (change.kind == TreeChangeKind::kRenamed) take_place(change.base_path);
    bool returns = change.kind == TreeChangeKind::kRenamed || change.kind == TreeChangeKind::kDeleted;
    if (returns) take_covers(change.base_path);
  }
}

void Selection::complete_for_apply() {
  while (!pending_.empty()) {
    const TreeChange& change = all_[pending_.back()];
    pending_.pop_back();
    bool is_dir = change.node().is_directory();
    if (change.kind == TreeChangeKind::kDeleted) {
      if (is_dir) take_below(change.path);
      if (is_dir) take_moved_from(change.base_path);
      continue;
    }
    take_above(change.path);
    if (change.kind == TreeChangeKind::kModified || change.place.empty()) continue;
    auto [first, last] = by_base_path_.equal_range(change.place);
    for (auto it = first; it != last; ++it) take(it->second);
  }
}

std::vector<TreeChange> Selection::list() const {
  std::vector<TreeChange> chosen;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (taken_[i]) chosen.push_back(all_[i]);
  }
  return chosen;
}

}  // namespace warren
