// What an agent's repository has that no reference leads to: commits made on a detached HEAD, in another worktree or
// left by a reset, and content that was only staged.
//
// Not what the agent has replaced or taken back with git's own commands, as its logs and the commits themselves say:
// the old commits of `commit --amend` and of a rebase (not those that a rebase dropped without their content being
// somewhere else: changes/commits/dropped_commits.h), and stashes that were popped or dropped. They are where every
// repository keeps them for a while, and nobody looks for them in a session. Nor what git itself wrote for a merge that
// stopped at a conflict, nor what was in the base's repository at the session's start.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

struct StrayObjects {
  // Commits that neither a reference or the HEAD of the agent's repository at the top of the base nor one of the base's
  // leads to.
  std::size_t commits = 0;
  std::string subject;  // of the newest of them
  // There are objects that the base's repository does not have: those of commits that were not brought, or staged ones.
  bool are_alone = false;
};

// `in_git` are the changes that leave_out_git has removed. Runs git in a quarantine (changes/git/quarantine.h) if there
// are new objects that the base's repository does not have.
Result<StrayObjects> find_stray_objects(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git);

}  // namespace warren
