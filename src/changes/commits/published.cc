// What the base does not track, in any of the commits that are brought: their history is published, too.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <sys/stat.h>

#include <fmt/format.h>

#include "changes/commits/commits.h"
#include "changes/git/git_refs.h"
#include "changes/git/raw_diff.h"
#include "changes/git/work_tree_ids.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

constexpr const char* kStashes = "refs/stash";

// "src/a" → the ids of its versions in commits.
using Versions = std::unordered_map<std::string, std::unordered_set<std::string>>;

// Of git's diff-tree --raw -z. A merge has one more mode and id for each further parent, and as many colons more:
// "::100644 100644 100644 ID ID ID MM".
Versions list_versions(const std::vector<std::string>& parts) {
  Versions versions;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    std::string_view rest = parts[i];
    std::size_t parents = std::min(rest.find_first_not_of(':'), rest.size());
    std::size_t last_id = 2 * parents + 1;
    rest.remove_prefix(parents);
    for (std::size_t word = 0; word < last_id; ++word) rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
    std::string_view id = rest.substr(0, rest.find(' '));
    if (id.find_first_not_of('0') != id.npos) versions[parts[i + 1]].emplace(id);
  }
  return versions;
}

// Of the objects that only the user's stashes lead to: of each, the commit with its files, that of its index and, as a
// third parent, that of untracked files. Not the first parent, which was HEAD and may have been amended since.
Result<std::unordered_set<std::string>> list_stashed_objects(Git& git) {
  std::unordered_set<std::string> ids;
  Captured newest = WARREN_TRY(git.run({"rev-parse", "--verify", "--quiet", kStashes}));
  if (newest.status != 0) return ids;
  std::string stashes = WARREN_TRY(git.ask({"log", "-g", "--format=%H %P", kStashes, "--"}));
  std::string asked;
  for_each_line(stashes + "\n", [&](std::string_view line) {
    std::string_view stash = line.substr(0, line.find(' '));
    if (is_object_id(stash)) asked += fmt::format("{0}\n^{0}^1\n", stash);
  });
  Result<std::string> listed = git.ask_with({"rev-list", "--objects", "--no-object-names", "--ignore-missing",
                                             "--stdin", "--not", fmt::format("--exclude={}", kStashes), "--all"},
                                            asked);
  if (!listed.ok()) {
    return std::move(listed)
        .take_error()
        .within("look for what the commits have from your stashes")
        .with_hint("`git fsck` in the base says what is wrong there; --no-commits applies the changes as files");
  }
  for_each_line(*listed, [&](std::string_view id) { ids.emplace(id); });
  // An empty file is nobody's.
  std::string empty = WARREN_TRY(git.ask_with({"hash-object", "--stdin"}, ""));
  ids.erase(empty);
  return ids;
}

}  // namespace

Result<std::string> CommitImport::list_brought_commits() {
  return joined_.ask({"rev-list", commit_, "--not", fmt::format("--exclude={}", kStashes), "--all"});
}

Result<CommitImport::Versions> CommitImport::list_brought_versions() {
  std::string commits = WARREN_TRY(list_brought_commits());
  if (commits.empty()) return Versions();
  std::string listed = WARREN_TRY(joined_.ask_with(
      {"diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--raw", "--no-abbrev", "--no-commit-id", "--no-renames"},
      commits + "\n"));
  return list_versions(split_at_nul(listed));
}

Result<std::vector<std::string>> CommitImport::list_stashed(const Versions& versions) {
  std::vector<std::string> stashed;
  if (versions.empty()) return stashed;
  std::unordered_set<std::string> ids = WARREN_TRY(list_stashed_objects(joined_));
  for (const auto& [name, own] : versions) {
    bool is_stashed = std::any_of(own.begin(), own.end(), [&](const std::string& id) { return ids.contains(id); });
    if (is_stashed) stashed.push_back("/" + name);
  }
  return stashed;
}

// Files of the base's work tree that its index does not have, and whose content a commit has, or that were there at the
// start and are in a commit, though not in the last one. Not what this agent has applied. None before the base's first
// commit: then no file is tracked yet.
Result<std::vector<std::string>> CommitImport::list_published(const Versions& versions) {
  std::vector<std::string> published;
  if (versions.empty() || !WARREN_TRY(has_head(base_))) return published;
  std::unordered_set<std::string> applied = list_known_applied(overlay_);
  std::vector<std::string> paths;
  auto tree = WARREN_TRY(HostTree::open(overlay_.base_path));
  for (const auto& [name, ids] : versions) {
    std::optional<struct stat> node = WARREN_TRY(tree->find("/" + name));
    bool is_file = node && (S_ISREG(node->st_mode) || S_ISLNK(node->st_mode));
    if (is_file && !applied.contains("/" + name)) paths.push_back("/" + name);
  }
  paths = WARREN_TRY(list_untracked(paths));
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(path.substr(1));
  std::unordered_map<std::string, std::string> here = WARREN_TRY(hash_work_tree(base_, *tree, names));
  for (const std::string& name : names) {
    auto id = here.find(name);
    bool is_same = id != here.end() && versions.at(name).contains(id->second);
    bool is_removed = !is_same && !WARREN_TRY(joined_.succeeds({"cat-file", "-e", commit_ + ":" + name}));
    if (is_same || (is_removed && WARREN_TRY(is_as_at_start("/" + name)))) published.push_back("/" + name);
  }
  return published;
}

Result<CommitImport::Beyond> CommitImport::look_beyond(const std::vector<TreeChange>& changes) {
  Beyond beyond = WARREN_TRY(look_at_head(changes));
  Versions versions = WARREN_TRY(list_brought_versions());
  std::vector<std::string> published = WARREN_TRY(list_published(versions));
  std::set<std::string> known(beyond.foreign.begin(), beyond.foreign.end());
  known.insert(beyond.untracked.begin(), beyond.untracked.end());
  for (std::string& path : published) {
    if (!known.insert(path).second) continue;
    auto& uncommitted = beyond.uncommitted;
    if (std::find(uncommitted.begin(), uncommitted.end(), path) == uncommitted.end()) uncommitted.push_back(path);
    beyond.untracked.push_back(std::move(path));
  }
  known.insert(beyond.uncommitted.begin(), beyond.uncommitted.end());
  beyond.stashed = WARREN_TRY(list_stashed(versions));
  std::erase_if(beyond.stashed, [&](const std::string& path) { return known.contains(path); });
  std::sort(beyond.stashed.begin(), beyond.stashed.end());
  std::sort(beyond.uncommitted.begin(), beyond.uncommitted.end());
  std::sort(beyond.untracked.begin(), beyond.untracked.end());
  return beyond;
}

}  // namespace warren
