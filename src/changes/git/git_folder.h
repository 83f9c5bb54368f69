// Changes inside the git directories of the base (.git), which diff and apply leave out.
//
// Index, references and objects belong together and are changed by every command of git, on both sides: as files they
// always conflict, and settings and hooks in them run programs. Commits arrive as a branch instead
// (changes/commits/commits.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

bool is_in_git_dir(std::string_view path);  // a component is ".git"
// Whether git would write a file of this name ("src/a") to a work tree: not "..", nor ".GIT".
bool is_git_path(std::string_view name);

// Removes the changes in git directories that the base has, and returns them. Not those in a repository that the agent
// created or whose whole directory it deleted, and none if a pattern names a ".git".
Result<std::vector<TreeChange>> leave_out_git(const AgentOverlay& overlay, std::vector<TreeChange>& changes,
                                              const std::vector<std::string>& patterns);

// kInvalid if one of the changes, which are to be written to the base, is in a git directory that the base has, and is
// neither a hook nor settings: a reference or an index that is copied as a file leads to objects that are not there.
Status check_git_files(const AgentOverlay& overlay, const std::vector<TreeChange>& changes);

}  // namespace warren
