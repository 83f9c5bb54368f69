#include "changes/git/git_folder.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "base/ascii.h"
#include "base/path.h"
#include "changes/upper/tree_finder.h"

namespace warren {
namespace {

// "/a/.git/hooks/x" → "/a/.git"; "" for a path outside of git directories.
std::string_view git_dir_of(std::string_view path) {
  constexpr std::string_view kName = "/.git";
  for (std::size_t at = path.find(kName); at != path.npos; at = path.find(kName, at + 1)) {
    std::size_t end = at + kName.size();
    if (end == path.size() || path[end] == '/') return path.substr(0, end);
  }
  return {};
}

// Decides for whole git directories.
class GitDirs {
 public:
  GitDirs(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) : base_(overlay.base) {
    for (const TreeChange& change : changes) {
      if (change.kind == TreeChangeKind::kDeleted) deleted_.insert(change.path);
    }
  }

  Result<bool> is_left_out(std::string_view path) {
    std::string dir(git_dir_of(path));
    if (dir.empty()) return false;
    auto known = known_.find(dir);
    if (known != known_.end()) return known->second;
    bool is_out = !deleted_.contains(split_parent(dir).parent) && WARREN_TRY(base_.find(dir))
    .has_value();
    known_.emplace(std::move(dir), is_out);
    return is_out;
  }

 private:
  TreeFinder base_;
  std::unordered_set<std::string_view> deleted_;  // point into the changes
  std::unordered_map<std::string, bool> known_;
};

}  // namespace

bool is_git_path(std::string_view name) {
  while (!name.empty()) {
    std::string_view part = name.substr(0, name.find('/'));
    if (part.empty() || part == "." || part == ".." || to_lower(part) == ".git") return false;
    if (part.size() == name.size()) return true;
    name.remove_prefix(part.size() + 1);
  }
  return false;
}

bool is_in_git_dir(std::string_view path) { return !git_dir_of(path).empty(); }

Result<std::vector<TreeChange>> leave_out_git(const AgentOverlay& overlay, std::vector<TreeChange>& changes,
                                              const std::vector<std::string>& patterns) {
  std::vector<TreeChange> left_out;
  bool is_named = std::any_of(patterns.begin(), patterns.end(),
                              [](const std::string& pattern) { return is_in_git_dir("/" + pattern); });
  if (is_named) return left_out;
  std::vector<bool> is_out(changes.size());
  GitDirs dirs(overlay, changes);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    bool is_in = WARREN_TRY(dirs.is_left_out(changes[i].path));
    is_out[i] = is_in || WARREN_TRY(dirs.is_left_out(changes[i].base_path));
  }
  std::vector<TreeChange> kept;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    (is_out[i] ? left_out : kept).push_back(std::move(changes[i]));
  }
  changes = std::move(kept);
  return left_out;
}

}  // namespace warren
