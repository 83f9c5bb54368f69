#include "changes/left_out.h"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/path.h"

namespace warren {
namespace {

void insert_dirs(std::string_view path, std::unordered_set<std::string_view>& dirs) {
  while (path != "/" && dirs.insert(path).second) path = split_parent(path).parent;
}

void remove_those(std::vector<TreeChange>& changes, const std::vector<bool>& out) {
  std::vector<TreeChange> kept;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (!out[i]) kept.push_back(std::move(changes[i]));
  }
  changes = std::move(kept);
}

}  // namespace

std::vector<bool> find_left_out(const std::vector<TreeChange>& changes,
                                const std::function<bool(const TreeChange&)>& is_out) {
  std::vector<bool> out(changes.size());
  std::unordered_set<std::string_view> above;  // those that are left out
  for (std::size_t i = 0; i < changes.size(); ++i) {
    out[i] = is_out(changes[i]);
    if (out[i]) insert_dirs(split_parent(changes[i].path).parent, above);
  }
  std::unordered_set<std::string_view> needed;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (out[i] || above.contains(changes[i].path)) continue;
    insert_dirs(changes[i].path, needed);
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const TreeChange& change = changes[i];
    bool is_above = above.contains(change.path) && change.node().is_directory();
    bool is_only_for_them = change.kind == TreeChangeKind::kAdded && !needed.contains(change.path);
    if (is_above && (is_only_for_them || change.kind == TreeChangeKind::kDeleted)) out[i] = true;
  }
  return out;
}

void leave_out(std::vector<TreeChange>& changes, const std::function<bool(const TreeChange&)>& is_out) {
  remove_those(changes, find_left_out(changes, is_out));
}

void leave_out_empty_dirs(std::vector<TreeChange>& changes, const std::function<bool(const TreeChange&)>& may_go) {
  std::vector<bool> out(changes.size());
  std::unordered_set<std::string_view> needed;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    out[i] = may_go(changes[i]);
    if (!out[i]) insert_dirs(changes[i].path, needed);
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (needed.contains(changes[i].path)) out[i] = false;
  }
  remove_those(changes, out);
}

}  // namespace warren
