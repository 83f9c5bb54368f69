#include "changes/pinned/head_versions.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "changes/compare.h"
#include "changes/git/base_heads.h"
#include "changes/git/git.h"
#include "changes/git/git_folder.h"
#include "changes/git/quarantine.h"
#include "changes/git/raw_diff.h"
#include "changes/pinned/merged_work.h"
#include "changes/upper/upper_tree.h"

namespace warren {
namespace {

// The files that differ between two commits. Submodules are left out, and so is what changes between a file and a
// directory.
HeadVersions list_versions(std::string_view raw) {
  HeadVersions all;
  std::set<std::string, std::less<>> dirs;
  std::set<std::string, std::less<>> left_out;
  for (const RawDiff& one : parse_raw_diff(raw)) {
    std::string path = "/" + one.path;
    bool is_dir = one.old_mode == kGitTreeMode || one.new_mode == kGitTreeMode;
    bool is_submodule = one.old_mode == kGitSubmoduleMode || one.new_mode == kGitSubmoduleMode;
    if (is_submodule || !is_git_path(one.path)) left_out.insert(std::move(path));
    else if (is_dir) dirs.insert(std::move(path));
    else
      all.emplace(std::move(path), HeadVersion{.mode = one.was_there() ? one.old_mode : "",
                                               .id = one.was_there() ? one.old_id : "",
                                               .now_id = one.is_there() ? one.new_id : ""});
  }
  for (const auto& [path, version] : all) {
    if (dirs.contains(path)) left_out.insert(path);
  }
  std::erase_if(all, [&](const auto& one) { return is_at_or_below_one(one.first, left_out); });
  return all;
}

// Whether the base's node is one that the session found at its start.
bool is_from_start(const Attributes& node, const PinnedGit& pinned) {
  return !node.is_directory() && is_surely_older(node.ctime, pinned.begun);
}

// Leaves out what is to show as the base has it. `newer` is what the base has changed since the start.
Status leave_out_live(const AgentOverlay& overlay, const PinnedGit& pinned, const HeadVersions& newer,
                      HeadVersions& versions) {
  std::vector<std::string> applied;
  {
    auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
    applied = WARREN_TRY(list_applied_paths(overlay.upper));
  }
  std::set<std::string, std::less<>> live(applied.begin(), applied.end());
  live.insert(overlay.hidden.begin(), overlay.hidden.end());
  TreeFinder base(overlay.base);
  // A directory that is moved takes files along that are older than the session.
  std::unordered_set<std::string> gone;
  for (const HeadVersions* all : {&newer, &std::as_const(versions)}) {
    for (const auto& [path, version] : *all) {
      if (version.is_file() && version.now_id.empty()) gone.insert(version.id);
    }
  }
  for (auto one = versions.begin(); one != versions.end();) {
    bool is_live = is_at_or_below_one(one->first, live);
    if (!is_live) {
      Result<std::optional<Attributes>> there = base.find(one->first);
      bool was_moved_there = !one->second.is_file() && gone.contains(one->second.now_id);
      is_live = !there.ok() || (*there && is_from_start(**there, pinned) && !was_moved_there);
    }
    one = is_live ? versions.erase(one) : std::next(one);
  }
  return Ok{};
}

// Leaves out files that the base does not have, and those of commits of the agent alone: the upper layer has them, or
// the agent has removed them. Returns the bytes of the others, without content filters.
Result<std::uint64_t> leave_out_own(const std::string& base, HeadVersions& versions) {
  std::string ids;
  for (const auto& [path, version] : versions) {
    if (version.is_file()) ids += version.id + "\n";
  }
  if (ids.empty()) return std::uint64_t{0};
  Git git(base);
  git.set_limit(limits::kFreezeTime);
  std::string sizes = WARREN_TRY(git.ask_with({"cat-file", "--batch-check=%(objectsize)"}, ids));
  std::string_view rest = sizes;
  std::uint64_t bytes = 0;
  for (auto one = versions.begin(); one != versions.end();) {
    if (!one->second.is_file()) {
      ++one;
      continue;
    }
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::optional<std::uint64_t> size = parse_number<std::uint64_t>(line);
    one->second.bytes = size.value_or(0);
    bytes += one->second.bytes;
    one = size ? std::next(one) : versions.erase(one);
  }
  return bytes;
}

// What the agent has added since the start, and the base does not have, is in the upper layer, or the agent has removed
// it again. Not what was merged already: the base had it, and may have lost it.
Status leave_out_own_additions(Git& git, const std::string& start, const std::string& settled,
                               const std::string& commit, HeadVersions& versions) {
  auto added_since = [&](const std::string& from) {
    return git.run({"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", from, commit});
  };
  Captured added = WARREN_TRY(added_since(settled.empty() ? start : settled));
  if (added.status != 0) added = WARREN_TRY(added_since(start));  // the agent can write the note of what is settled
  for (const std::string& name : split_at_nul(added.output)) {
    auto found = versions.find("/" + name);
    if (found != versions.end() && found->second.is_file() && found->second.now_id.empty()) versions.erase(found);
  }
  return Ok{};
}

const HeadVersion* find_file(const HeadVersions& versions, const std::string& path) {
  auto found = versions.find(path);
  return found != versions.end() && found->second.is_file() ? &found->second : nullptr;
}

// Below a directory that the agent has renamed, the base's files show under other paths. What HEAD has there counts; as
// long as the rename is not committed, HEAD has them under the old ones. `own` is what the agent's commits have
// changed.
Status follow_renamed_dirs(const AgentOverlay& overlay, const HeadVersions& since_start, const HeadVersions& own,
                           HeadVersions& versions) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  std::erase_if(versions, [&](const auto& one) { return tree.path_of(one.first) != one.first; });
  for (const auto& [place, of_start] : since_start) {
    std::string path = tree.path_of(place);
    if (path == place) continue;
    const HeadVersion* shown_there = find_file(own, path);
    if (shown_there == nullptr) shown_there = find_file(own, place);
    // What the base has only since the start, under the name of a rename that was merged: the agent has renamed the
    // directory back, and its commits have changed nothing in this file.
    bool is_renamed_back = shown_there == nullptr && !of_start.is_file() && !own.contains(path);
    if (is_renamed_back) shown_there = find_file(since_start, path);
    HeadVersion shown = shown_there != nullptr ? *shown_there : of_start;
    shown.now_id = of_start.now_id;
    versions[place] = std::move(shown);
  }
  return Ok{};
}

Result<std::string> find_settled(const AgentOverlay& overlay) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  return find_settled_commit(overlay.upper);
}

// The commit that the files of the session belong to.
Result<std::string> find_agent_commit(const AgentOverlay& overlay, const PinnedGit& pinned) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(overlay.upper.fs(), "/.git"));  // all of it is there
  return heads && !heads->commit.empty() ? heads->commit : pinned.head;
}

}  // namespace

bool is_at_or_below_one(std::string_view path, const std::set<std::string, std::less<>>& paths) {
  for (; path != "/"; path = split_parent(path).parent) {
    if (paths.contains(path)) return true;
  }
  return false;
}

Result<std::optional<HeadVersions>> find_head_versions(const AgentOverlay& overlay, const PinnedGit& pinned) {
  std::optional<GitHeads> heads = WARREN_TRY(find_base_heads(overlay));
  std::string head = heads ? heads->commit : "";
  if (pinned.head.empty() || head.empty()) return std::optional(HeadVersions());
  std::string settled = WARREN_TRY(find_settled(overlay));
  if (head == pinned.head && settled.empty()) return std::optional(HeadVersions());
  std::string commit = WARREN_TRY(find_agent_commit(overlay, pinned));
  Git git(overlay.base_path);
  git.set_limit(limits::kFreezeTime);
  std::optional<ScratchDir> borrowed;
  if (commit != pinned.head) {
    std::vector<TreeChange> all = WARREN_TRY(list_changes(overlay));
    std::optional<ScratchDir> made = WARREN_TRY(borrow_commit(overlay, all, commit, git));
    if (made) borrowed.emplace(std::move(*made));
  }
  const std::vector<std::string> compare{"diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev"};
  auto differing = [&](const std::string& from, const std::string& to) {
    std::vector<std::string> words = compare;
    words.insert(words.end(), {from, to});
    return git.run(words);
  };
  Captured listed = WARREN_TRY(differing(commit, head));
  Captured newer = WARREN_TRY(differing(pinned.head, head));
  Captured own = WARREN_TRY(differing(commit, pinned.head));
  if (listed.status != 0 || newer.status != 0 || own.status != 0)
    return std::optional(HeadVersions());  // the base lacks the commit by now
  HeadVersions versions = list_versions(listed.output);
  HeadVersions since_start = list_versions(newer.output);
  WARREN_TRY(follow_renamed_dirs(overlay, since_start, list_versions(own.output), versions));
  WARREN_TRY(leave_out_own_additions(git, pinned.head, settled, commit, versions));
  if (versions.size() > limits::kFrozenPaths) return std::optional<HeadVersions>();
  WARREN_TRY(leave_out_live(overlay, pinned, since_start, versions));
  std::uint64_t bytes = WARREN_TRY(leave_out_own(overlay.base_path, versions));
  if (bytes > limits::kFrozenBytes) return std::optional<HeadVersions>();
  return std::optional(std::move(versions));
}

}  // namespace warren
