// Changes of an agent that take back what the user has not committed.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <sys/stat.h>

#include "base/ascii.h"
#include "base/path.h"
#include "changes/commits/commits.h"
#include "changes/commits/ignored.h"
#include "changes/git/git_folder.h"
#include "changes/git/git_tree.h"
#include "changes/git/work_tree_ids.h"
#include "changes/upper/tree_finder.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

// As git stores a file: "100644 ID". "" if there is none; no entry if it is something else, or cannot be known.
using Entries = std::unordered_map<std::string, std::string>;  // by "src/a"

std::string entry_of(std::string_view mode, std::string_view id) { return std::string(mode).append(" ").append(id); }

Result<Entries> list_commit_entries(const Git& git, const std::string& commit, const std::vector<std::string>& names) {
  Entries entries;
  for (const std::string& name : names) entries[name] = "";
  std::vector<GitTreeEntry> found = WARREN_TRY(find_in_commit(git, commit, names));
  for (const GitTreeEntry& one : found) {
    if (one.is_file()) entries[one.path] = entry_of(one.mode, one.id);
    else entries.erase(one.path);
  }
  return entries;
}

Result<Entries> list_work_tree_entries(Git& git, const std::string& dir, const std::vector<std::string>& names) {
  auto tree = WARREN_TRY(HostTree::open(dir));
  std::unordered_map<std::string, std::string> ids = WARREN_TRY(hash_work_tree(git, *tree, names));
  Entries entries;
  for (const std::string& name : names) {
    std::optional<struct stat> node = WARREN_TRY(tree->find("/" + name));
    auto id = ids.find(name);
    if (!node) entries[name] = "";
    if (!node || id == ids.end()) continue;
    bool is_program = (node->st_mode & S_IXUSR) != 0;
    std::string_view mode = S_ISLNK(node->st_mode) ? kGitLinkMode : is_program ? kGitProgramMode : "100644";
    entries[name] = entry_of(mode, id->second);
  }
  return entries;
}

bool may_take_back(const TreeChange& change) {
  bool is_plain = change.kind != TreeChangeKind::kRenamed && !change.node().is_directory() && !change.is_set_back;
  bool is_there = change.place == change.path || (change.place.empty() && change.kind == TreeChangeKind::kAdded);
  return is_plain && is_there && !is_in_git_dir(change.path);
}

// All of them before the base's first commit.
Result<std::unordered_set<std::string>> list_unlike_base_head(Git base, const std::string& dir,
                                                              const std::vector<std::string>& names) {
  std::unordered_set<std::string> found;
  if (names.empty()) return found;
  Entries in_head;
  for (const std::string& name : names) in_head[name] = "";
  if (WARREN_TRY(has_head(base))) in_head = WARREN_TRY(list_commit_entries(base, "HEAD", names));
  Entries here = WARREN_TRY(list_work_tree_entries(base, dir, names));
  for (const std::string& name : names) {
    auto head = in_head.find(name);
    auto file = here.find(name);
    bool is_same = head != in_head.end() && file != here.end() && head->second == file->second;
    if (!is_same) found.insert(name);
  }
  return found;
}

}  // namespace

Result<std::unordered_set<std::string>> CommitImport::list_changed_since(const std::string& from) {
  return list_differing(joined_, from, head_);
}

// Names of files that a merge of the agent's HEAD changes in the base's; of unrelated histories, all that differ. Not
// those that only the base has changed since both parted: the commits contain nothing of that.
Result<std::unordered_set<std::string>> CommitImport::list_to_merge() {
  std::unordered_set<std::string> names;
  if (!WARREN_TRY(has_head(base_))) return names;
  names = WARREN_TRY(list_changed_since("HEAD"));
  Captured common = WARREN_TRY(joined_.run({"merge-base", "HEAD", head_}));
  if (common.status != 0) return names;
  std::unordered_set<std::string> since =
      WARREN_TRY(list_changed_since(std::string(trimmed(common.output, kWhitespace))));
  std::erase_if(names, [&](const std::string& name) { return !since.contains(name); });
  return names;
}

Result<std::unordered_set<std::string>> CommitImport::list_uncommitted(const std::vector<std::string>& names) {
  return list_unlike_base_head(base_, overlay_.base_path, names);
}

// Names of files that the agent's commits change, whatever they are compared with: merging them is what changes the
// base's.
Result<std::unordered_set<std::string>> CommitImport::list_committed_otherwise() {
  std::unordered_set<std::string> names = WARREN_TRY(list_changed_since(from_));
  if (!WARREN_TRY(has_head(base_))) return names;
  std::unordered_set<std::string> since_base = WARREN_TRY(list_changed_since("HEAD"));
  std::erase_if(names, [&](const std::string& name) { return !since_base.contains(name); });
  std::unordered_set<std::string> to_merge = WARREN_TRY(list_to_merge());
  names.merge(to_merge);
  return names;
}

Status CommitImport::mark_taken_back(std::vector<TreeChange>& changes) {
  bool has_any = std::any_of(changes.begin(), changes.end(), may_take_back);
  if (head_.empty() || !has_any) return Ok{};
  std::unordered_set<std::string> own = list_known_applied(overlay_);
  std::unordered_set<std::string> committed = WARREN_TRY(list_committed_otherwise());
  std::vector<std::string> names;
  for (const TreeChange& change : changes) {
    std::string name = change.path.substr(1);
    if (may_take_back(change) && !own.contains(change.path) && !committed.contains(name)) names.push_back(name);
  }
  Entries in_head = WARREN_TRY(list_commit_entries(joined_, head_, names));
  Entries in_base = WARREN_TRY(list_work_tree_entries(base_, overlay_.base_path, names));
  std::unordered_map<std::string, Candidate> candidates;
  TreeFinder merged(overlay_.merged);
  for (const auto& [name, entry] : in_base) {
    auto head = in_head.find(name);
    if (head == in_head.end() || head->second == entry) continue;
    std::optional<Attributes> shown = WARREN_TRY(merged.find("/" + name));
    bool is_file = !shown || shown->is_file() || shown->is_symlink();
    bool is_there = shown.has_value();
    if (is_file && is_there == !head->second.empty()) candidates.emplace(name, Candidate{'M', shown});
  }
  if (candidates.empty()) return Ok{};
  std::unordered_set<std::string> dirty = WARREN_TRY(list_dirty_candidates(candidates));
  IgnoredPaths ignored = WARREN_TRY(find_ignored(overlay_, changes, Rules::kBase));
  for (TreeChange& change : changes) {
    std::string name = change.path.substr(1);
    bool is_as_in_head = candidates.contains(name) && !dirty.contains(name);
    if (is_as_in_head && may_take_back(change) && !ignored.contains(change.path)) change.takes_back_work = true;
  }
  return Ok{};
}

std::vector<std::string> list_work_in_doubt(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  std::unordered_set<std::string> own = list_known_applied(overlay);
  std::vector<std::string> names;
  for (const TreeChange& change : changes) {
    if (may_take_back(change) && !own.contains(change.path)) names.push_back(change.path.substr(1));
  }
  std::vector<std::string> found;
  if (names.empty()) return found;
  auto unlike = list_unlike_base_head(Git(overlay.base_path), overlay.base_path, names);
  Result<IgnoredPaths> ignored = find_ignored(overlay, changes, Rules::kBase);
  for (const TreeChange& change : changes) {
    if (!may_take_back(change) || own.contains(change.path)) continue;
    bool is_work = unlike.ok() ? unlike->contains(change.path.substr(1)) : change.before.has_value();
    bool is_new = found.empty() || found.back() != change.path;
    if (is_work && is_new && !(ignored.ok() && ignored->contains(change.path))) found.push_back(change.path);
  }
  return found;
}

}  // namespace warren
