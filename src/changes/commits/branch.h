// Commits changes to a new branch of the base's git repository.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// The parent is HEAD at the agent's start (AgentOverlay::note), so that git merges what others have committed since. If
// the changes cannot be expressed against that, or it is unknown, the parent is the current HEAD: then a text file of
// which HEAD has another version than the agent saw is merged. kConflict where that is impossible. Git's content
// filters apply. The work tree, the index and the current branch are not changed. Files that git ignores, and
// everything in a .git directory, are left out. Returns the commit's id. kNotFound without git, kInvalid if the base is
// not in a work tree, kExists for an existing branch.
// `message` is the commit's; "" for one that names the base.
Result<std::string> commit_to_branch(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                     const std::string& branch, const std::string& message);

}  // namespace warren
