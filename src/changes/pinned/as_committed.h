// Files that differ from the base only because the base went on: the session's git has nothing to commit there.
//
// The agent's HEAD is a commit A; the base's is another one, H. A file that the session has as A has it, and that no
// commit changes which A has and H lacks, is no change of the session's. It got into the upper layer because git wrote
// it again (`reset --hard`, `checkout`, `stash`), or because commits of the agent were merged and others changed the
// same file since. Writing it to the base would revert newer work. If the agent has commits of its own, so is what was
// the user's uncommitted work at the start, and the user has committed since: git put it aside in the session. A file
// whose mode, owner or extended attributes are not those that the agent saw first is a change all the same: git does
// not compare them.
//
// Others are set back (TreeChange::is_set_back): the agent did not commit them, and the base's newer version did show.
// That is a conflict, since git may have done it; so is what was not compared. It is none if the agent certainly had
// that version before: its own work, which was applied, or what was there at the start.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// Removes them from the list, which is that of all changes, with those in .git. Runs git only if the base's HEAD is
// another commit than that of the session's start.
Status leave_out_as_committed(const AgentOverlay& overlay, std::vector<TreeChange>& changes);

// Whether the base has a file with the content that the commit at the session's start has under that path.
Result<bool> has_version_of_start(const AgentOverlay& overlay, const std::string& base_path);

}  // namespace warren
