// The agent's side of an undo.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/apply/apply_record.h"

namespace warren {

// After an undo with these steps was performed: what the agent still has of the undone apply is a change of the agent
// again, to what the undo put in its place. That is what is new and an apply left for programs that had it open, and
// what was changed since. What the undo did not write stays as it was, and so does what somebody else has changed in
// the base since. The merged tree of this agent object is not updated: close it afterwards.
Status take_up_undone(const AgentOverlay& overlay, const std::vector<Step>& steps);

// Does that for the agent that a finished undo belongs to, and adds the undo to its audit trail, if the agent still
// exists. The undo itself is done, so what fails is returned as notes for the user.
std::vector<std::string> report_undo(const ApplyRecord& undo, Clock& clock);

}  // namespace warren
