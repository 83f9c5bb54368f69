#include "changes/left_with_agent.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/checkpoints.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "store/namespace_tree.h"

namespace warren {
namespace {

// "" for what git can make again, and for commits, which find_commits lists.
std::string left_in_git(std::string_view path) {
  constexpr std::string_view kTop = "/.git/";
  if (path == "/.git/refs/stash") return "the stash";
  if (path.starts_with("/.git/refs/tags/")) return "tags";
  if (path == "/.git/packed-refs") return "packed references";
  bool is_object = path.find("/objects/") != path.npos;
  if (is_object && path.starts_with("/.git/modules/")) return "commits of a submodule";
  if (is_object && !path.starts_with(kTop)) {
    return fmt::format("commits in {}", quote(path.substr(0, path.find("/.git/"))));
  }
  return "";
}

Result<bool> has_memory(Agent& agent) {
  auto tree = NamespaceTree::open_in(agent.store());
  if (!tree.ok() && tree.error().code() == Code::kNotFound) return false;
  auto fs = WARREN_TRY(std::move(tree));
  if (!resolve(*fs, "/mem", Follow::kNo).ok()) return false;
  bool has_file = false;
  WARREN_TRY(walk(*fs, "/mem", [&](const WalkEntry& entry) -> Result<WalkNext> {
    has_file = has_file || !entry.attributes.is_directory();
    return has_file ? WalkNext::kStop : WalkNext::kContinue;
  }));
  return has_file;
}

}  // namespace

Result<std::vector<std::string>> list_left_with_agent(Agent& agent, const std::vector<TreeChange>& in_git) {
  std::vector<std::string> left;
  for (const TreeChange& change : in_git) {
    if (!change.after || change.after->is_directory()) continue;
    std::string what = left_in_git(change.path);
    if (!what.empty() && std::find(left.begin(), left.end(), what) == left.end()) left.push_back(std::move(what));
  }
  if (WARREN_TRY(has_memory(agent))) left.emplace_back("memory");
  if (!WARREN_TRY(agent.kv().list({.limit = 1})).empty()) left.emplace_back("keys");
  if (!WARREN_TRY(list_checkpoints(agent)).empty()) left.emplace_back("checkpoints");
  return left;
}

}  // namespace warren
