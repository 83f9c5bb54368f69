// What will not work of git in a run, in words: said at its start, since git's own messages do not name the sandbox.
#pragma once

#include <string>
#include <vector>

#include "sandbox/view/plan.h"

namespace warren {

// Of the base of a plan: its repository is above it, or its commits are to be signed with a key that the plan hides.
// `home` is canonical. Runs git, if the base has a repository.
std::vector<std::string> list_git_warnings(const Plan& plan, const std::string& home);

}  // namespace warren
