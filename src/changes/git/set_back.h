// Files that a session has set back to the version of its start, while the base went on.
//
// HEAD and index of a session are those of its start (changes/git/pinned_git.h), but the files that the agent has not
// touched are the base's of now. So `git reset --hard`, `git checkout .` or `git stash` inside also undo what others
// have committed since: nobody meant that.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// Paths of changes: the session has the file as it was in the commit at its start, or has removed one that was not in
// it, and the base's HEAD has a newer version. Runs git only if HEAD has moved since; nothing if that fails.
Result<std::unordered_set<std::string>> list_set_back(const AgentOverlay& overlay,
                                                      const std::vector<TreeChange>& changes);

}  // namespace warren
