// Commits in an agent's repository that no reference leads to: made on a detached HEAD, in another worktree, or left by
// a reset or an amendment.
#pragma once

#include <cstddef>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// How many of the agent's own commits neither a reference or the HEAD of the agent's repository at the top of the base
// nor one of the base's leads to. `in_git` are the changes that leave_out_git has removed. Runs git in a quarantine
// (changes/git/quarantine.h) if there are new objects.
Result<std::size_t> count_stray_commits(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git);

}  // namespace warren
