// What stays in an agent when all of its changes were applied: whoever deletes the agent deletes it.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// "the stash", "tags", "memory": in words, each once. `in_git` are the changes that leave_out_git has removed. Commits
// on branches are not among them: apply brings those (changes/commits.h).
Result<std::vector<std::string>> list_left_with_agent(Agent& agent, const std::vector<TreeChange>& in_git);

}  // namespace warren
