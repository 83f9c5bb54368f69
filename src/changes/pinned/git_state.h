// Reads the state of git of a repository: what is copied to pin it (changes/pinned/pinned_git.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "changes/git/git_refs.h"
#include "changes/pinned/git_rest.h"
#include "fs/file_system.h"

namespace warren {

struct GitStateNode {
  std::string path;       // below .git: "HEAD", "rebase-merge/done"; a directory comes before what is in it
  Attributes as;          // of the base's node
  bool is_shown = false;  // a directory that goes on showing the base's
  std::string content;    // of a file; the target of a link
};

struct GitState {
  Attributes dir;  // of .git itself
  std::vector<GitStateNode> nodes;
  std::string head;          // the commit; "" before the first one
  GitReferences references;  // without symbolic ones, and those that git keeps for each worktree
  Timestamp begun;           // when it was read
  Timestamp time;            // older than anything that the index must compare by content
};

// nullopt if `/.git` of the base is not an ordinary repository of this user: see pin_git. Waits for git commands that
// are under way there (changes/pinned/git_rest.h): kBusy if they do not end.
Result<std::optional<GitState>> read_git_state(FileSystem& base);
Result<std::optional<GitState>> read_git_state(FileSystem& base, const GitRest& rest);

}  // namespace warren
