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

const HeadVersion* find_file(const HeadVersions& versions, const std::string& path) {
  auto found = versions.find(path);
  return found != versions.end() && found->second.is_file() ? &found->second : nullptr;
}

Result<std::string> find_settled(const AgentOverlay& overlay) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  return find_settled_commit(overlay.upper);
}

// How commits differ from the base's HEAD.
struct Compared {
  HeadVersions agents;               // the agent's HEAD
  HeadVersions start;                // the session's start
  std::vector<HeadVersions> shared;  // those of list_shared_commits
  HeadVersions own;                  // how the agent's HEAD differs from the start, with the version of the first
};

// What the agent's HEAD has of a file of the base that the session shows as `path`: under that name, or, as long as a
// rename is not committed, under the base's. nullopt if it is the version that the base's HEAD has.
std::optional<HeadVersion> find_in_head(const Compared& compared, const std::string& path, const std::string& place) {
  if (path != place) {
    bool is_own = compared.own.contains(path);
    const HeadVersion* moved = find_file(is_own ? compared.own : compared.start, path);
    if (moved != nullptr) return *moved;
  }
  auto found = compared.agents.find(place);
  return found != compared.agents.end() ? std::optional(found->second) : std::nullopt;
}

// What the session shows at each place of the base's, as far as it has not changed it, if the base's HEAD has something
// else there. That is what the agent's HEAD has, unless that is no version that the base has ever had there: another
// file may have the name in it, or none, while a rename is committed only in part, or was taken back. After a second
// rename that is not committed, the agent's HEAD has neither name, and after a merge the base lacks both, too.
Result<HeadVersions> list_shown(const AgentOverlay& overlay, const Compared& compared) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  HeadVersions known = compared.agents;  // each place once
  for (const HeadVersions& one : compared.shared) known.insert(one.begin(), one.end());
  HeadVersions shown;
  for (const auto& [place, any] : known) {
    std::string path = tree.path_of(place);
    std::optional<HeadVersion> in_head = find_in_head(compared, path, place);
    if (!in_head) {
      bool is_renamed_again = path != place && any.is_file() && any.now_id.empty();
      if (is_renamed_again) shown.emplace(place, any);
      continue;
    }
    in_head->now_id = any.now_id;
    const HeadVersions& last = compared.shared.back();
    auto at_last = last.find(place);
    std::optional<HeadVersion> version = at_last != last.end() ? std::optional(at_last->second) : std::nullopt;
    for (const HeadVersions& one : compared.shared) {
      auto found = one.find(place);
      bool is_there_too = in_head->id == (found != one.end() ? found->second.id : any.now_id);
      if (is_there_too) version = found != one.end() ? in_head : std::nullopt;  // else it is what the base has now
    }
    if (version) shown.emplace(place, *std::move(version));
  }
  return shown;
}

// The commit that the files of the session belong to.
Result<std::string> find_agent_commit(const AgentOverlay& overlay, const PinnedGit& pinned) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(overlay.upper.fs(), "/.git"));  // all of it is there
  return heads && !heads->commit.empty() ? heads->commit : pinned.head;
}

}  // namespace

Result<std::vector<std::string>> list_shared_commits(const AgentOverlay& overlay, const PinnedGit& pinned, Git& git,
                                                     const std::string& commit, const std::string& head) {
  std::string settled = WARREN_TRY(find_settled(overlay));
  auto contains = [&](const std::string& newer, const std::string& older) {
    return git.succeeds({"merge-base", "--is-ancestor", older, newer});
  };
  std::vector<std::string> shared{pinned.head};
  Captured common = WARREN_TRY(git.run({"merge-base", commit, head}));
  std::string newest(trimmed(common.output, kWhitespace));
  bool is_newer = common.status == 0 && newest != pinned.head && WARREN_TRY(contains(newest, pinned.head));
  if (is_newer) shared.push_back(newest);
  if (settled.empty()) return shared;
  bool is_last = WARREN_TRY(contains(settled, shared.back()));
  shared.insert(is_last ? shared.end() : shared.begin(), settled);
  return shared;
}

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
  auto differing = [&](const std::string& from, const std::string& to) {
    return git.run({"diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", from, to});
  };
  Captured agents = WARREN_TRY(differing(commit, head));
  Captured own = WARREN_TRY(differing(commit, pinned.head));
  Captured newer = WARREN_TRY(differing(pinned.head, head));
  if (agents.status != 0 || own.status != 0 || newer.status != 0)
    return std::optional(HeadVersions());  // the base lacks the commit by now
  Compared compared{.agents = list_versions(agents.output),
                    .start = list_versions(newer.output),
                    .shared = {},
                    .own = list_versions(own.output)};
  std::vector<std::string> shared = WARREN_TRY(list_shared_commits(overlay, pinned, git, commit, head));
  for (const std::string& one : shared) {
    Captured listed = WARREN_TRY(differing(one, head));
    if (listed.status == 0) compared.shared.push_back(list_versions(listed.output));
  }
  HeadVersions versions = WARREN_TRY(list_shown(overlay, compared));
  if (versions.size() > limits::kFrozenPaths) return std::optional<HeadVersions>();
  WARREN_TRY(leave_out_live(overlay, pinned, compared.start, versions));
  std::uint64_t bytes = WARREN_TRY(leave_out_own(overlay.base_path, versions));
  if (bytes > limits::kFrozenBytes) return std::optional<HeadVersions>();
  return std::optional(std::move(versions));
}

}  // namespace warren
