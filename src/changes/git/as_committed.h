// Files that differ from the base only because the base went on: the session's git has nothing to commit there.
//
// The agent's HEAD is a commit A; the base's is another one, H. A file that the session has as A has it, and that no
// commit changes which A has and H lacks, is no change of the session's. It got into the upper layer because git wrote
// it again (`reset --hard`, `checkout`, `stash`), or because commits of the agent were merged and others changed the
// same file since. To write it to the base would take newer work back.
#pragma once

#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// Removes them from the list, which is that of all changes, with those in .git. Runs git only if the base's HEAD is
// another commit than that of the session's start. What git cannot tell stays in the list.
void leave_out_as_committed(const AgentOverlay& overlay, std::vector<TreeChange>& changes);

}  // namespace warren
