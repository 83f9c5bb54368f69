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
// The commit of HEAD of the repository in a directory of the host; "" if there is none, and for a linked worktree.
Result<std::string> find_head_commit(const std::string& dir);

}  // namespace warren
