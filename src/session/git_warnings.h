// What will not work of git in a run, in words: said at its start, since git's own messages do not name the sandbox.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "sandbox/view/plan.h"

namespace warren {

// Of the base of a plan: its repository is above it, or its commits are to be signed with a key that the plan hides.
// `home` is canonical. Runs git, if the base has a repository.
std::vector<std::string> list_git_warnings(const Plan& plan, const std::string& home);

// For a new session: a git command has held the index of the base for a while, so it works there, or was interrupted.
// "" if there is none.
std::string find_git_lock_warning(const std::string& base, Clock& clock);

}  // namespace warren
