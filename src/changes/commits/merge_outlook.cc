// What a merge of an agent's commits meets in the base: local changes, another history, unknown submodules.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <sys/stat.h>

#include "base/ascii.h"
#include "base/path.h"
#include "changes/commits/commits.h"
#include "changes/git/raw_diff.h"
#include "changes/git/work_tree_ids.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

// A merge replaces files that git ignores, and `git stash -u` leaves them.
Status leave_out_ignored(Git& git, std::vector<std::string>& paths) {
  std::unordered_set<std::string> ignored = WARREN_TRY(list_ignored(git, paths));
  std::erase_if(paths, [&](const std::string& path) { return ignored.contains(path); });
  return Ok{};
}

// The submodule must be one of the base's already: git runs in it.
Result<bool> lacks_commit(const std::string& base, HostTree& tree, const RawDiff& one) {
  if (one.old_mode != kGitSubmoduleMode || one.new_mode != kGitSubmoduleMode) return false;
  if (!WARREN_TRY(tree.find("/" + one.path + "/.git"))) return false;
  Git git(base + "/" + one.path);
  return !WARREN_TRY(has_commit(git, one.new_id));
}

}  // namespace

Result<bool> CommitImport::contains(const std::string& commit) {
  return joined_.succeeds({"merge-base", "--is-ancestor", commit, commit_});
}

Result<bool> CommitImport::contains_in_head(const std::string& commit) {
  if (head_.empty()) return false;
  return joined_.succeeds({"merge-base", "--is-ancestor", commit, head_});
}

Result<MergeOutlook> CommitImport::foresee_merge() {
  MergeOutlook outlook;
  outlook.has_head = WARREN_TRY(has_head(base_));
  std::string empty_tree = WARREN_TRY(find_empty_tree(joined_));
  std::string from = empty_tree;
  if (outlook.has_head) {
    Captured common = WARREN_TRY(joined_.run({"merge-base", "HEAD", commit_}));
    from = trimmed(common.output, kWhitespace);
    outlook.is_related = common.status == 0 && !from.empty();
    if (!outlook.is_related) return outlook;
  }
  std::unordered_set<std::string> changed = WARREN_TRY(list_differing(joined_, from, commit_));
  std::string raw = WARREN_TRY(joined_.ask({"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev",
                                            outlook.has_head ? std::string("HEAD") : empty_tree, commit_}));
  std::vector<RawDiff> paths = parse_raw_diff(raw);
  std::erase_if(paths, [&](const RawDiff& one) { return !changed.contains(one.path); });
  auto tree = WARREN_TRY(HostTree::open(overlay_.base_path));
  std::vector<std::string> hashed;
  for (const RawDiff& one : paths) hashed.push_back(one.path);
  std::unordered_map<std::string, std::string> ids = WARREN_TRY(hash_work_tree(base_, *tree, hashed));
  for (const RawDiff& one : paths) {
    if (WARREN_TRY(lacks_commit(overlay_.base_path, *tree, one))) outlook.submodules.push_back({one.path, one.new_id});
    auto here = ids.find(one.path);
    if (here == ids.end() || here->second == one.old_id) continue;
    (here->second == one.new_id ? outlook.as_committed : outlook.otherwise).push_back(one.path);
  }
  WARREN_TRY(leave_out_ignored(base_, outlook.as_committed));
  return outlook;
}

}  // namespace warren
