// The agent's side of an undo.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"

namespace warren {

// After an undo of an apply: what the agent still has at these paths, or below, is a change of the agent again, to what
// the base has now. That is what is new and an apply left for programs that had it open, and what was changed since.
// The base must not have been changed since the undo. The merged tree of this agent object is not updated: close it
// afterwards.
Status take_up_undone(const AgentOverlay& overlay, const std::vector<std::string>& paths);

}  // namespace warren
