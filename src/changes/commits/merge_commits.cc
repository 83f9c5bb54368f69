#include "changes/commits/merge_commits.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/apply/copy_node.h"
#include "changes/commits/commits.h"
#include "changes/git/git_refs.h"
#include "changes/git/quarantine.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr const char* kRepository = "/.git";
constexpr std::string_view kObjectsOf = "/.git/objects/";
constexpr int kBranchTries = 100;

// With the index of a pack, which git needs in a repository.
bool is_wanted(std::string_view path) {
  if (!path.starts_with(kObjectsOf)) return false;
  std::string name(path.substr(kObjectsOf.size()));
  for (std::string_view suffix : {".idx", ".rev"}) {
    if (name.ends_with(suffix)) name.replace(name.size() - suffix.size(), suffix.size(), ".pack");
  }
  return object_file_of(name) != ObjectFile::kNone;
}

Status copy_objects(const AgentOverlay& to, const AgentOverlay& from, const std::vector<TreeChange>& all,
                    const Owner& owner) {
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  for (const TreeChange& change : all) {
    if (!change.after || !change.after->is_file() || !is_wanted(change.path)) continue;
    bytes += change.after->size;
    if (++count > limits::kGitObjects || bytes > limits::kGitObjectBytes || change.after->size > bytes)
      return Error(Code::kTooLarge, "the commits have too many or too large objects",
                   "apply one of both first, then the other");
    if (WARREN_TRY(exists(to.merged, change.path))) continue;  // the same object: its name is its hash
    std::string dir(split_parent(change.path).parent);
    WARREN_TRY(make_dirs(to.merged, dir, {.mode = 0755, .owner = owner}));
    WARREN_TRY(copy_node(from.merged, change.path, *change.after, to.merged, change.path));
  }
  return Ok{};
}

// Git keeps branches as paths: "a" cannot exist beside "a/b".
bool is_free_name(const GitBranches& branches, const std::string& name) {
  return std::none_of(branches.begin(), branches.end(), [&](const auto& one) {
    return one.first == name || one.first.starts_with(name + "/") || name.starts_with(one.first + "/");
  });
}

Result<std::string> choose_name(const GitBranches& branches, const std::string& wanted, const std::string& commit) {
  for (int number = 1; number <= kBranchTries; ++number) {
    std::string name = number == 1 ? wanted : fmt::format("{}-{}", wanted, number);
    auto there = branches.find(name);
    bool is_there = there != branches.end() && there->second == commit;
    if (is_branch_name(name) && (is_there || is_free_name(branches, name))) return name;
  }
  return Error(Code::kExists, fmt::format("there is no free name for the branch {}", quote(wanted)));
}

}  // namespace

Result<std::vector<std::string>> take_over_commits(const AgentOverlay& to, const AgentOverlay& from,
                                                   const std::vector<TreeChange>& all, const std::string& name) {
  std::vector<std::string> written;
  std::optional<AgentCommits> found = WARREN_TRY(find_commits(from));
  if (!found || found->brings.empty()) return written;
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(to.merged, kRepository));
  if (!heads)
    return Error(Code::kInvalid, fmt::format("{} has commits, but the other one has no repository", quote(name)));
  Attributes top = WARREN_TRY(lstat(to.merged, kRepository));
  WARREN_TRY(copy_objects(to, from, all, top.owner));
  for (const AgentBranch& one : found->brings) {
    std::string wanted = fmt::format("warren/{}", name);
    if (one.commit != found->head) wanted += "-" + one.name;
    std::string branch = WARREN_TRY(choose_name(heads->branches, wanted, one.commit));
    heads->branches.insert_or_assign(branch, one.commit);
    std::string path = fmt::format("{}/refs/heads/{}", kRepository, branch);
    WARREN_TRY(write_file(to.merged, path, as_bytes(one.commit + "\n"), {.owner = top.owner}));
    written.push_back(std::move(branch));
  }
  return written;
}

}  // namespace warren
