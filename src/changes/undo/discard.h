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
// With `as_listed`, which list_every_discarded has returned, nothing is dropped if the selected changes are others by
// now: kConflict. The session's index is not compared: git writes it when it only looks at files.
Result<std::vector<TreeChange>> discard_changes(const AgentOverlay& overlay, const ChangeFilter& filter,
                                                Agent* on_record_of = nullptr,
                                                const std::vector<TreeChange>* as_listed = nullptr);

// Returns what discard_changes would drop.
Result<std::vector<TreeChange>> list_discarded(const AgentOverlay& overlay, const ChangeFilter& filter);
// The same with what no list shows (list_every_change).
Result<std::vector<TreeChange>> list_every_discarded(const AgentOverlay& overlay, const ChangeFilter& filter);

}  // namespace warren
