// The work tree of a session in a git repository: what was committed in the base after the session's start does not
// show.
//
// HEAD and index of a session are those of its start (changes/pinned/pinned_git.h). Without this, files that others
// commit meanwhile would be "modified" and "untracked" for git in the session: `git commit -a` would take their work
// back, and `git merge` refuse to run. So, once the base's HEAD has moved, the upper layer gets a copy of each file
// that the session's HEAD has in another version, and hides what that does not have. Neither is a change, as long as
// the agent does not touch it; if it does, the base's newer version is a conflict, as always.
//
// Not for what the base had at the start and nobody has written since (uncommitted work that was committed later), nor
// for what the session itself has applied. Uncommitted work of the user shows as it is. See docs/design/changes.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/agent.h"
#include "base/result.h"

namespace warren {

enum class Frozen {
  kAsBefore,  // nothing was written
  kChanged,   // the agent has to be opened again, if it was opened before
  kTooMuch,   // more than the limits allow has changed in the base: its files show as they are
};

// Runs git only if the base's HEAD is another commit than that of the session's start, or was when this ran last.
Result<Frozen> freeze_work_tree(Agent& agent);
// The same for an agent file that a command has just changed, if a run or a mount shows it.
Status freeze_served(const std::string& agent_path, Clock& clock);
// For the user: why what was committed since shows; "" if it does not.
std::string describe_unfrozen(const Result<Frozen>& frozen);

}  // namespace warren
