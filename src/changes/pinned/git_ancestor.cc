#include "changes/pinned/git_ancestor.h"

#include <string_view>
#include <utility>

#include "base/binary.h"
#include "base/limits.h"
#include "changes/git/git_tree.h"
#include "changes/git/quarantine.h"
#include "changes/pinned/pinned_git.h"
#include "fs/path_ops.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

Result<std::optional<std::string>> find_small_text(Git& git, const std::string& commit, const std::string& name) {
  std::optional<std::string> none;
  Result<std::vector<GitTreeEntry>> entries = find_in_commit(git, commit, {name});
  bool is_missing = !entries.ok() && entries.error().code() == Code::kInvalid;
  if (is_missing) return none;
  if (!entries.ok()) return std::move(entries).take_error();
  bool is_file = entries->size() == 1 && entries->front().is_file() && entries->front().mode != kGitLinkMode;
  if (!is_file) return none;
  std::string object = commit + ":" + name;
  Captured content = WARREN_TRY(git.run({"cat-file", "--filters", object}));
  bool is_kept = content.status == 0 && content.output.size() <= limits::kAncestorBytes && !is_binary(content.output);
  return is_kept ? std::optional(std::move(content.output)) : none;
}

// Merging the newer version into the agent's changes nothing: it is there already. After a `git reset` to a newer
// commit, for example, it is not, and as a merge base that version would make the merge revert it.
bool contains_version(const std::string& start, const std::string& own, const std::string& newer) {
  Merged merged = merge3(start, own, newer);
  return merged.is_clean() && merged.text == own;
}

Result<std::optional<std::string>> find_in_git(const AgentOverlay& overlay, const TreeChange& change) {
  std::optional<std::string> none;
  const std::string& path = change.base_path.empty() ? change.place : change.base_path;
  bool is_file = change.node().is_file() && (!change.before || change.before->is_file());
  if (path.size() < 2 || !is_file || change.touches_hidden || change.is_set_back) return none;
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay));
  if (!pinned || pinned->head.empty()) return none;
  Git git(overlay.base_path);
  std::string name = path.substr(1);
  std::optional<std::string> start = WARREN_TRY(find_small_text(git, pinned->head, name));
  bool may_be_newer = start && change.after && !change.common.empty() && change.common != pinned->head;
  if (!may_be_newer || change.after->size > limits::kPatchFileBytes) return start;
  std::optional<std::string> newer = WARREN_TRY(find_small_text(git, change.common, name));
  if (!newer || *newer == *start) return start;
  std::string own = WARREN_TRY(read_file(overlay.merged, change.path));
  return contains_version(*start, own, *newer) ? newer : start;
}

}  // namespace

std::optional<std::string> find_git_ancestor(const AgentOverlay& overlay, const TreeChange& change) {
  Result<std::optional<std::string>> found = find_in_git(overlay, change);
  return found.ok() ? *std::move(found) : std::nullopt;
}

}  // namespace warren
