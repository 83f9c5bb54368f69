// The merge base of a file whose own one was not kept, from git.
//
// An overlay keeps the version that an agent started from with the node that changed. Git removes a file and creates it
// again (`stash`, `checkout`, `merge`), and then that version is lost. But the commit at the session's start has it.
#pragma once

#include <optional>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// The version of the session's start, which both sides are made of. If the agent has merged or rebased onto newer work
// (TreeChange::common), and its file contains that, the version of that commit. As a checkout would write it. nullopt
// if there is none, or no small text file, or git did not answer.
std::optional<std::string> find_git_ancestor(const AgentOverlay& overlay, const TreeChange& change);

}  // namespace warren
