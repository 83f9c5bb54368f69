// Commits of one agent as branches of another with the same base.
//
// Both repositories are a stranger's: nothing is believed and git does not run. New objects are copied as files, since
// their names are the hashes of their content, and a branch is written as text. Whoever applies the result has git
// check every object (changes/commits/commits.h).
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// `all` are all changes of `from`, with those in .git. The branch of its HEAD becomes "warren/NAME", others
// "warren/NAME-BRANCH". Returns the branches that were written; none if `from` has made no commits. kExists if such a
// branch exists with another commit.
Result<std::vector<std::string>> take_over_commits(const AgentOverlay& to, const AgentOverlay& from,
                                                   const std::vector<TreeChange>& all, const std::string& name);

}  // namespace warren
