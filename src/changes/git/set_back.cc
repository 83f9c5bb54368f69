#include "changes/git/set_back.h"

#include <unordered_map>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/git/git.h"
#include "changes/git/git_refs.h"
#include "changes/git/pinned_git.h"
#include "changes/git/quarantine.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::size_t kComparedFiles = 1000;

// Of the paths that HEAD has in another version than the start: the object's id at the start, "" if it was not there.
using StartVersions = std::unordered_map<std::string, std::string>;

// Of git's diff-tree --raw -z: ":100644 100644 OLD NEW M", then the path.
StartVersions parse_start_versions(std::string_view text) {
  StartVersions versions;
  std::vector<std::string> parts = split_at_nul(text);
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    constexpr std::size_t kModes = 15;  // before the first id
    std::string_view line = parts[i];
    if (!line.starts_with(':') || line.size() < kModes) break;
    std::string_view id = line.substr(kModes, line.find(' ', kModes) - kModes);
    bool is_new = id.find_first_not_of('0') == id.npos;
    versions.emplace("/" + parts[i + 1], is_new ? "" : std::string(id));
  }
  return versions;
}

Result<bool> has_version(const AgentOverlay& overlay, Git& git, const TreeChange& change, const std::string& id) {
  bool may_be = change.after && change.after->is_file() && change.after->size <= limits::kPatchFileBytes;
  if (!may_be || id.empty()) return false;
  std::string content = WARREN_TRY(read_file(overlay.merged, change.path));
  // Git hashes, so that content filters count.
  std::string hashed = WARREN_TRY(git.ask_with({"hash-object", "--stdin", "--path", change.path.substr(1)}, content));
  return hashed == id;
}

// Files that commits of the agent have changed which the base has, too: there the agent knows the newer version.
Status leave_out_own(const AgentOverlay& overlay, Git& git, const std::string& start, StartVersions& versions) {
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(overlay.merged, "/.git"));
  if (!heads || heads->commit.empty() || heads->commit == start) return Ok{};
  Captured names = WARREN_TRY(git.run({"diff-tree", "-r", "-z", "--name-only", "--no-renames", start, heads->commit}));
  if (names.status != 0) return Ok{};  // not in the base
  for (const std::string& name : split_at_nul(names.output)) versions.erase("/" + name);
  return Ok{};
}

}  // namespace

Result<std::unordered_set<std::string>> list_set_back(const AgentOverlay& overlay,
                                                      const std::vector<TreeChange>& changes) {
  std::unordered_set<std::string> paths;
  if (changes.empty()) return paths;
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay));
  if (!pinned || pinned->head.empty()) return paths;
  Git git(overlay.base_path);
  git.set_limit(limits::kGitTime);
  Result<Captured> listed =
      git.run({"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", pinned->head, "HEAD"});
  if (!listed.ok() || listed->status != 0) return paths;  // no git, or a commit that the base no longer has
  StartVersions versions = parse_start_versions(listed->output);
  WARREN_TRY(leave_out_own(overlay, git, pinned->head, versions));
  std::size_t compared = 0;
  for (const TreeChange& change : changes) {
    auto found = versions.find(change.path);
    if (found == versions.end() || change.base_path != change.path) continue;
    if (change.kind == TreeChangeKind::kDeleted && found->second.empty()) paths.insert(change.path);
    if (change.kind != TreeChangeKind::kModified || ++compared > kComparedFiles) continue;
    bool is_set_back = WARREN_TRY(has_version(overlay, git, change, found->second));
    if (is_set_back) paths.insert(change.path);
  }
  return paths;
}

}  // namespace warren
