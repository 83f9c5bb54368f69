// Dropping changes: the base shows again what the agent had changed.
#pragma once

#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// Drops what the filter wants, and what must go with it (below), in one transaction. Returns what was
// dropped, by path. The agent must be opened anew to see it through Agent::fs().
//
// What goes with it: everything below a directory that was added, renamed or deleted; and what stands at the
// name that a renamed node had.
Result<std::vector<TreeChange>> discard_changes(const AgentOverlay& overlay, const ChangeFilter& filter);

// The same, without dropping anything.
Result<std::vector<TreeChange>> list_discarded(const AgentOverlay& overlay, const ChangeFilter& filter);

}  // namespace warren
