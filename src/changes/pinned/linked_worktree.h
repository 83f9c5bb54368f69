// The repository that a directory of the user's is in, and what a session in a linked worktree or submodule has
// instead.
//
// A linked worktree (`git worktree add`) has a file `.git` that leads to the main repository, which is not in the base
// and which a run may not write. So a new session gets a directory `.git` of its own in its place, in the upper layer:
// HEAD, index, settings and references are copied, and the objects are read from the main repository. It is
// copy-on-write like everything else; commits arrive by `apply` (changes/commits/commits.h). A submodule's repository
// is in the `.git` of the project around it, and it gets the same.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// The top of the repository around a directory: the nearest with a `.git` of the same owner. nullopt if there is none,
// or it is the home or above it: a home is more than a project. All paths canonical.
std::optional<std::string> find_repository_top(const std::string& dir, const std::string& home);

struct LinkedWorktree {
  std::string git_dir;  // the main repository's directory for this worktree
  std::string common;   // the main repository's own; of a submodule the same
};
// nullopt if `base` is neither that nor a submodule. A `.git` that leads to a repository which does not name this work
// tree is not followed: it could lead anywhere. Nor is one that leads into the base, or to a repository whose objects
// are elsewhere by a link: whoever made the base would choose what the run gets to see.
std::optional<LinkedWorktree> find_linked_worktree(const std::string& base);

// The repository outside of the base that its `.git` leads to, whether or not it names this work tree; nullopt if there
// is none. Inside of the base, git works without us.
std::optional<std::string> find_git_outside(const std::string& base);

// What a run must be able to read so that git works inside: absolute paths of directories, without links on the way.
std::vector<std::string> paths_to_read(const LinkedWorktree& worktree);

// What is in a session's own repository.
struct WorktreeRepository {
  std::vector<std::pair<std::string, std::string>> files;  // "/.git/HEAD" and its content
  Timestamp time;                                          // of all of them
};

// Runs git, and waits for git commands that are under way. Links in the repository outside are not followed.
Result<WorktreeRepository> read_worktree_repository(const std::string& base, const LinkedWorktree& worktree);
// Replaces what the agent has as `.git`. `fs` is its merged tree.
Status write_worktree_repository(FileSystem& fs, const WorktreeRepository& repository);

}  // namespace warren
