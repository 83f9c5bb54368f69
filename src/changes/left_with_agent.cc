#include "changes/left_with_agent.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "base/path.h"
#include "changes/commits/left_in_git.h"
#include "fs/tree_ops.h"
#include "store/files/namespace_tree.h"

namespace warren {
namespace {

// "memory" and "files in the namespace", as far as there are such files.
Status add_namespace(Agent& agent, std::vector<std::string>& left) {
  auto tree = NamespaceTree::open_in(agent.store());
  if (!tree.ok() && tree.error().code() == Code::kNotFound) return Ok{};
  auto fs = WARREN_TRY(std::move(tree));
  bool has_memory = false;
  bool has_others = false;
  WARREN_TRY(walk(*fs, "/", [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (entry.attributes.is_directory()) return WalkNext::kContinue;
    (entry.path.starts_with("/mem/") ? has_memory : has_others) = true;
    return has_memory && has_others ? WalkNext::kStop : WalkNext::kContinue;
  }));
  if (has_memory) left.emplace_back("memory");
  if (has_others) left.emplace_back("files in the namespace");
  return Ok{};
}

// The user has asked for it. What a run records by itself goes with the session.
Result<bool> has_wanted_trail(Agent& agent) {
  AuditLog& trail = agent.store().audit();
  AuditLevel level = WARREN_TRY(trail.level());
  if (level != AuditLevel::kOn && level != AuditLevel::kReads) return false;
  return WARREN_TRY(trail.head())
  .seq > 0;
}

}  // namespace

Result<std::vector<std::string>> list_left_with_agent(Agent& agent, const AgentOverlay& overlay,
                                                      const std::vector<TreeChange>& in_git) {
  std::vector<std::string> left = list_left_in_git(overlay, in_git);
  WARREN_TRY(add_namespace(agent, left));
  if (!WARREN_TRY(agent.kv().list({.limit = 1})).empty()) left.emplace_back("keys");
  if (!WARREN_TRY(list_checkpoints(agent)).empty()) left.emplace_back("checkpoints");
  if (!WARREN_TRY(agent.tools().list({.limit = 1})).empty()) left.emplace_back("tool calls");
  if (WARREN_TRY(has_wanted_trail(agent))) left.emplace_back("the audit trail");
  return left;
}

Result<bool> has_taken_back(const AgentOverlay& overlay, const AgentCommits& commits,
                            const std::vector<TreeChange>& changes, const std::vector<TreeChange>& in_git) {
  if (commits.head.empty()) return false;
  Result<std::unique_ptr<CommitImport>> import = CommitImport::prepare(overlay, commits, commits.head, in_git);
  if (!import.ok()) return true;
  CommitImport::Beyond beyond = WARREN_TRY((*import)->look_beyond(changes));
  return !beyond.taken_back.empty();
}

}  // namespace warren
