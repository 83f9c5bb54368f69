// Changes as a commit on a new branch of the base's git repository.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// On top of HEAD; the work tree, the index and the branch that is checked out stay as they are. Files that
// git ignores, and everything in a .git directory, are left out. Returns the commit's name. kNotFound
// without git, kInvalid where the base is in no work tree, kExists for a branch that is there.
Result<std::string> commit_to_branch(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                     const std::string& branch);

}  // namespace warren
