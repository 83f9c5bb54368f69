// The end of an apply in the agent file.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/apply/intent.h"
#include "changes/upper/upper_edit.h"

namespace warren {

// Removes the applied changes from the upper layer together with the intent, in one transaction. Returns the paths that
// the agent has changed since they were staged: those are changes of the agent relative to what the base has now.
Result<std::vector<std::string>> drop_applied(Agent& agent, const AgentOverlay& overlay, const Intent& intent);

// The same for changes that came to the base in another way (changes/pinned/merged_work.h). `merged` has no steps.
// Within a write unit of the upper layer.
Status drop_merged(const AgentOverlay& overlay, const Intent& merged, InUse in_use);

}  // namespace warren
