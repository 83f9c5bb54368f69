// What stays in an agent when all of its changes were applied: whoever deletes the agent deletes it.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/commits/commits.h"

namespace warren {

// "the stash", "tags", "memory": in words, each once. `in_git` are the changes that leave_out_git has removed. Commits
// on branches are not among them: apply brings those (changes/commits/commits.h). Nor is the audit trail, unless
// somebody has asked for it.
Result<std::vector<std::string>> list_left_with_agent(Agent& agent, const AgentOverlay& overlay,
                                                      const std::vector<TreeChange>& in_git);

// Whether the agent has changed files after its commits to what the base has, and these commits are not merged yet.
// True if that cannot be found out. `changes` are those outside of .git.
Result<bool> has_taken_back(const AgentOverlay& overlay, const AgentCommits& commits,
                            const std::vector<TreeChange>& changes, const std::vector<TreeChange>& in_git);

}  // namespace warren
