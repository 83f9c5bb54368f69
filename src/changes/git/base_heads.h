// HEAD and branches of the repository that an agent's base is in.
#pragma once

#include <optional>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/git/git_refs.h"

namespace warren {

// nullopt if the base is not the top of a repository. In a linked worktree `.git` is a file, and git is asked.
Result<std::optional<GitHeads>> find_base_heads(const AgentOverlay& overlay);

}  // namespace warren
