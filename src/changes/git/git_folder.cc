#include "changes/git/git_folder.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

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

// Hooks and settings, and the directories that they need: "/hooks/pre-commit".
bool is_applied_by_name(std::string_view below) {
  constexpr std::string_view kApplied[] = {"/hooks", "/config",          "/config.worktree",
                                           "/info",  "/info/attributes", "/info/exclude"};
  return below.starts_with("/hooks/") || std::ranges::find(kApplied, below) != std::end(kApplied);
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

  Status check(const std::string& path) {
    if (!WARREN_TRY(is_left_out(path))) return Ok{};
    std::string dir(git_dir_of(path));
    std::optional<Attributes> node = WARREN_TRY(base_.find(dir));
    if (node && !node->is_directory()) {
      return Error(
          Code::kInvalid,
          fmt::format("{} cannot be applied: the base's {} is not a directory, but leads to a repository elsewhere",
                      quote(path), quote(dir)),
          "`git rev-parse --git-common-dir` prints where that is; `warren fs ID cat PATH` prints the file");
    }
    if (is_applied_by_name(std::string_view(path).substr(dir.size()))) return Ok{};
    return Error(Code::kInvalid, fmt::format("{} cannot be applied: it is one of git's own files", quote(path)),
                 "commits arrive as branches, without a PATH; of .git, a PATH can name hooks and settings");
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

Status check_git_files(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  GitDirs dirs(overlay, changes);
  for (const TreeChange& change : changes) {
    WARREN_TRY(dirs.check(change.path));
    if (change.kind == TreeChangeKind::kRenamed) WARREN_TRY(dirs.check(change.base_path));
  }
  return Ok{};
}

}  // namespace warren
