// Drops changes, so that the base's nodes show again.
#pragma once

#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// Drops the selected changes, and those that cannot stay without them, in one transaction. Returns the dropped changes,
// sorted by path. Reopen the agent to see the result through Agent::fs().
//
// Cannot stay: everything below a directory that was added, renamed or deleted, and the node at the old name of a
// renamed node.
// With an agent, each is an event of its audit trail, if it has one, in the same transaction.
Result<std::vector<TreeChange>> discard_changes(const AgentOverlay& overlay, const ChangeFilter& filter,
                                                Agent* on_record_of = nullptr);

// Returns what discard_changes would drop.
Result<std::vector<TreeChange>> list_discarded(const AgentOverlay& overlay, const ChangeFilter& filter);

}  // namespace warren
