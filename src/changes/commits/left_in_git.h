// What an agent has in git directories of the base that no apply brings.
//
// The rule: every file below a .git that is not known to be scratch, and that the base does not have like that, is
// left. Scratch is what git writes by itself and makes again: the index, logs, ORIG_HEAD, locks. Objects are not judged
// here but by find_stray_objects (changes/commits/stray_commits.h), except in submodules and nested repositories, whose
// commits nobody brings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "changes/changes.h"

namespace warren {

// In words: "the stash", "tags of a submodule", "files in '/.git/lfs'". "" for scratch, objects and branches of the
// repository at the top.
std::string describe_left_in_git(const TreeChange& change);

// Each once, a limited number. `in_git` are the changes that leave_out_git has removed. Runs git if there is a new
// branch without new commits: its name counts, unless the base has that branch or one at the same commit.
std::vector<std::string> list_left_in_git(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git);

// A run makes a repository for a linked worktree, where the base's .git is a file (changes/pinned/linked_worktree.h).
// All files of it have this time until something changes them; nullopt in other bases.
std::optional<Timestamp> find_time_of_made_repository(const std::vector<TreeChange>& in_git);

}  // namespace warren
