// After a checkpoint was restored as a whole (agent/checkpoints/checkpoints.h): it has brought back what the agent had
// recorded about the base, and the base is another by now.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace warren {

// A file that was applied stays in the agent file while programs use it, and is no change as long as nobody touches it.
// If it came back in another version than the base has, it becomes a change: it would be dropped otherwise. It is in
// conflict, as the base may have an edit of the user's. Directories that the base no longer has are new ones, or go if
// nothing is in them. Succeeds for an agent without a base.
//
// Opens the agent again: the caller's may have been opened without its base.
Status keep_restored(const std::string& agent_path, Clock& clock);

}  // namespace warren
