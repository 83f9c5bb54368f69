// The agent file of a new session.
#pragma once

#include <optional>
#include <string>

#include "agent/keys/file_key.h"
#include "agent/sessions.h"
#include "base/clock.h"
#include "base/result.h"
#include "sandbox/view/plan.h"

namespace warren {

// All or nothing: an existing session file is always complete. In a linked git worktree, the agent gets a repository of
// its own; elsewhere the state of git is copied (changes/pinned/pinned_git.h).
Status make_session_file(const SessionDir& session, const Plan& plan, const std::optional<Encryption>& encryption,
                         Clock& clock);

}  // namespace warren
