// After a checkpoint was restored (agent/checkpoints/checkpoints.h): what the agent has again was made from the base
// of that time, and the base may have changed since.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

// A file that was applied stays in the agent file while programs use it, and is no change as long as nobody touches it.
// If it came back in another version than the base has, it becomes a change: it would be dropped otherwise. It is in
// conflict, as the base may have an edit of the user's. Directories that an apply or an undo has removed from the base
// are new ones, or go if nothing is in them. Succeeds for an agent without a base.
//
// `before` is what the agent was before the restore: the checkpoint that was taken of it, or what it was forked from.
//
// Opens the agent again: the caller's may have been opened without its base.
Status keep_restored(const std::string& agent_path, const AgentOptions& before, Clock& clock);

// After these paths were restored from `past`, in the same unit of the agent's files: they are compared with what the
// agent had seen of the base at the checkpoint. To restore them is to write to them, and so it looks as if the agent
// had seen what the base has now: an edit of the user's would be overwritten. The merged tree of this agent object is
// not updated. Succeeds for an agent without a base.
Status keep_restored_paths(Agent& past, Agent& agent, const std::vector<std::string>& paths);

}  // namespace warren
