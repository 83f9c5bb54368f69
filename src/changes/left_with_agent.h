// What stays in an agent when all of its changes were applied: whoever deletes the agent deletes it.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/git/commits.h"

namespace warren {

// "the stash", "tags", "memory": in words, each once. `in_git` are the changes that leave_out_git has removed. Commits
// on branches are not among them: apply brings those (changes/git/commits.h). Nor is the audit trail, unless somebody
// has asked for it.
Result<std::vector<std::string>> list_left_with_agent(Agent& agent, const AgentOverlay& overlay,
                                                      const std::vector<TreeChange>& in_git);

// Whether the agent's repository at the top of the base has objects that the base's does not have, such as those of a
// commit that no branch names any more. Commits that were brought are in both. Runs git if there are new objects; true
// if that fails, and for a new pack.
bool has_git_objects_alone(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git);
// Whether commits are among them that no reference leads to (changes/git/stray_commits.h); true if that cannot be found
// out, for example because an object is damaged.
bool has_stray_commits(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git);

// Whether the agent has changed files after its commits to what the base has, and these commits are not merged yet.
// True if that cannot be found out. `changes` are those outside of .git.
Result<bool> has_taken_back(const AgentOverlay& overlay, const AgentCommits& commits,
                            const std::vector<TreeChange>& changes, const std::vector<TreeChange>& in_git);

}  // namespace warren
