// What a session's git is in the middle of: a rebase, a merge, a stash that could not be restored without
// conflicts.
//
// Until it ends, files of the session can have conflict markers in them, and HEAD may be detached.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

struct GitUnderWay {
  std::string what;                   // "a rebase of 'main'", "a merge"; "" if only files are unmerged
  bool is_rebase = false;             // the branch does not move before it ends
  std::vector<std::string> unmerged;  // "/src/a"; the first, if there are very many
  std::size_t unmerged_count = 0;
};

// Of the repository at the top, as far as the agent has begun it. `all` are all changes, or those in .git. nullopt if
// there is nothing. An index that cannot be read counts as one without unmerged files.
Result<std::optional<GitUnderWay>> find_git_under_way(const AgentOverlay& overlay, const std::vector<TreeChange>& all);

// "a rebase of 'main' is under way in the session, with unresolved conflicts in 1 file: /a".
std::string describe_under_way(const GitUnderWay& git);

}  // namespace warren
