// Whether an apply may write where it would.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// Why the user must be asked before anything is written to the base; nullopt if they have agreed to it: `init --base`
// or `run` created the agent for this directory, or they were asked before. A base in an agent file from elsewhere is a
// stranger's wish.
Result<std::optional<std::string>> find_doubt(const AgentOverlay& overlay);
Status agree_to_base(const AgentOverlay& overlay);  // so that find_doubt does not ask again

// Fails for changes that must not be applied, whatever the user forces: kDenied for those to Warren's own state
// (~/.agentfs), kConflict for those that would touch what was hidden from the agent.
Status check_targets(const AgentOverlay& overlay, const std::vector<TreeChange>& changes);

// Agents' folders (.agentfs) are not part of diff and apply unless a pattern names them: a session could otherwise
// plant an agent file there. Removes those changes, and deletions of directories that contain such a folder; returns
// how many.
std::size_t leave_out_agent_folders(std::vector<TreeChange>& changes, const std::vector<std::string>& patterns);

}  // namespace warren
