// The agent's side of an undo.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/apply/apply_record.h"

namespace warren {

// Whether the agent that the apply was of still exists. False if its file is gone, or if that is another agent's by
// now. An error if that cannot be told: nothing of an agent may be lost because its file cannot be read just now.
Result<bool> has_its_agent(const ApplyRecord& undo, Clock& clock);

// Before the steps of an undo, and if it fails: says in the agent file that the base is about to change, so that a
// session in use keeps what it has of the undone apply until report_undo. Succeeds if the agent no longer exists. If it
// fails, no step must be performed: the agent could not be updated either.
Status mark_undo(const ApplyRecord& undo, Clock& clock);
void unmark_undo(const ApplyRecord& undo, Clock& clock);

// After an undo was performed: what the agent still has of the undone apply is a change of the agent
// again, to what the undo put in its place. That is what is new and an apply left for programs that had it open, and
// what was changed since. What the undo did not write stays as it was, and so does what somebody else has changed in
// the base since. The merged tree of this agent object is not updated: close it afterwards.
Status take_up_undone(const AgentOverlay& overlay, const Intent& intent);

// Does that for the agent that a finished undo belongs to, and adds the undo to its audit trail, if the agent still
// exists. Returns notes for the user. May be called again after an error or a crash: only the trail has the undo twice
// then.
Result<std::vector<std::string>> report_undo(const ApplyRecord& undo, Clock& clock);

}  // namespace warren
