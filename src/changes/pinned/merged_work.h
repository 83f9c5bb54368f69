// Commits of an agent that were merged into the base: git has applied them.
//
// An apply that brings commits as a branch writes nothing, so what they contain stays a change of the session until the
// user merges the branch. From then on the base has it, as after an apply of files: the session must not take it for
// its own any more, nor for something that somebody else has made. So apply notes which changes are in the commits, and
// as soon as the base's HEAD contains them, they are dropped like applied ones. What the agent has done to the same
// files since is a change of the base's version. If the commits have one name of a rename only, so is the other half.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/apply/intent.h"
#include "changes/changes.h"

namespace warren {

// Replaces the note of an earlier apply. Does nothing without a pinned state of git (changes/pinned/pinned_git.h).
Status note_brought(const AgentOverlay& overlay, const std::string& commit, std::vector<AppliedChange> changes);
// The last commit of the agent's that was merged and whose changes were dropped for that; "" if there is none. Within a
// unit of the upper layer.
Result<std::string> find_settled_commit(UpperLayer& upper);
// Copies what files of the session still have in the base only, under an old name that the commits remove: once they
// are merged, it is nowhere else. Call it before the commits are brought.
Status keep_renamed_content(const AgentOverlay& overlay, const std::vector<AppliedChange>& brought);
// Those that a user discards are not in the session any more. Within a write unit of the upper layer.
Status forget_brought(UpperLayer& upper, const std::vector<std::string>& paths);

// True if something was dropped: the agent has to be opened again. Runs git only if there is a note, and the base's
// HEAD is another commit than at the session's start.
Result<bool> settle_merged(Agent& agent);
// The same for an agent file that a command is about to open.
Status settle_merged(const std::string& id_or_path, Clock& clock);

}  // namespace warren
