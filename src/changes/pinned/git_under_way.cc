#include "changes/pinned/git_under_way.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "base/printable.h"
#include "changes/git/git_index.h"
#include "changes/git/git_refs.h"
#include "changes/pinned/pinned_git.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::string_view kTopOfGit = "/.git/";
constexpr std::string_view kTopIndex = "/.git/index";
constexpr std::size_t kUnmergedNamed = 5;

// "of 'main'", or nothing if HEAD was not on a branch.
std::string rebased_branch(const AgentOverlay& overlay, const std::string& file) {
  constexpr std::string_view kRebasedPrefix = "refs/heads/";
  Result<std::string> text = read_file(overlay.merged, file, {.size_bytes_max = limits::kGitRefBytes});
  std::string_view name = text.ok() ? trimmed(*text, kWhitespace) : std::string_view();
  return name.starts_with(kRebasedPrefix) ? fmt::format(" of {}", quote(name.substr(kRebasedPrefix.size()))) : "";
}

// A rebase comes first: each of its steps is a cherry-pick.
void find_operation(const AgentOverlay& overlay, const std::set<std::string, std::less<>>& made, GitUnderWay& found) {
  for (const char* folder : {"rebase-merge", "rebase-apply"}) {
    std::string file = fmt::format("{}/head-name", folder);
    if (!made.contains(file)) continue;
    found.is_rebase = true;
    found.what = "a rebase" + rebased_branch(overlay, std::string(kTopOfGit) + file);
    return;
  }
  auto has_folder = [&](std::string_view folder) {
    auto first = made.lower_bound(folder);
    return first != made.end() && first->starts_with(folder);
  };
  if (has_folder("rebase-merge/") || has_folder("rebase-apply/")) found.what = "a rebase or `git am`";
  else if (made.contains("MERGE_HEAD")) found.what = "a merge";
  else if (made.contains("CHERRY_PICK_HEAD")) found.what = "a cherry-pick";
  else if (made.contains("REVERT_HEAD")) found.what = "a revert";
  else if (has_folder("sequencer/")) found.what = "a cherry-pick or revert";
}

Result<Unmerged> find_unmerged_files(const AgentOverlay& overlay) {
  constexpr std::size_t kUsualIdBytes = 20;
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(overlay.merged, "/.git"));
  std::size_t id_bytes = heads && !heads->commit.empty() ? heads->commit.size() / 2 : kUsualIdBytes;
  std::string index = WARREN_TRY(read_file(overlay.merged, kTopIndex, {.size_bytes_max = limits::kGitIndexBytes}));
  Unmerged found = WARREN_TRY(find_unmerged(index, id_bytes));
  for (std::string& name : found.names) name.insert(0, "/");
  return found;
}

}  // namespace

Result<std::optional<GitUnderWay>> find_git_under_way(const AgentOverlay& overlay, const std::vector<TreeChange>& all) {
  std::set<std::string, std::less<>> made;  // files at the top of .git that the agent wrote
  for (const TreeChange& change : all) {
    if (change.after && change.after->is_file() && change.path.starts_with(kTopOfGit))
      made.insert(change.path.substr(kTopOfGit.size()));
  }
  GitUnderWay found;
  find_operation(overlay, made, found);
  if (made.contains("index")) {
    Result<Unmerged> unmerged = find_unmerged_files(overlay);
    if (unmerged.ok()) {
      found.unmerged = std::move(unmerged->names);
      found.unmerged_count = unmerged->count;
    }
  }
  if (found.what.empty() && found.unmerged.empty()) return std::optional<GitUnderWay>();
  return std::optional(std::move(found));
}

std::string describe_under_way(const GitUnderWay& git) {
  std::string files;
  std::size_t named = std::min(git.unmerged.size(), kUnmergedNamed);
  for (std::size_t i = 0; i < named; ++i) files += fmt::format("{}{}", i == 0 ? "" : ", ", printable(git.unmerged[i]));
  if (named < git.unmerged_count) files += fmt::format(" and {} more", git.unmerged_count - named);
  std::string conflicts = fmt::format("unresolved conflicts in {} {}: {}", git.unmerged_count,
                                      git.unmerged_count == 1 ? "file" : "files", files);
  if (git.what.empty()) return fmt::format("the session's git has {}", conflicts);
  return fmt::format("{} is under way in the session{}", git.what,
                     git.unmerged.empty() ? "" : fmt::format(", with {}", conflicts));
}

}  // namespace warren
