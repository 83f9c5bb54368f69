// What a commit or a tree of a repository has, by `git ls-tree -z`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/git/git.h"
#include "changes/git/raw_diff.h"

namespace warren {

struct GitTreeEntry {
  std::string mode;  // "100644"
  std::string id;
  std::string path;  // "src/a"

  bool is_submodule() const { return mode == kGitSubmoduleMode; }
  bool is_file() const { return mode != kGitTreeMode && mode != kGitSubmoduleMode; }  // or a link
};

// What is not in that format is skipped.
std::vector<GitTreeEntry> parse_git_tree(std::string_view text);

// Those of the paths that the commit has: files, links, submodules and directories. Each is meant literally. kInvalid
// if git does not have the commit.
Result<std::vector<GitTreeEntry>> find_in_commit(Git git, const std::string& commit,
                                                 const std::vector<std::string>& paths);

// Everything that is not a directory, of a commit or a tree, at or below `dir`: "" for all of it.
Result<std::vector<GitTreeEntry>> list_git_tree(Git git, const std::string& tree, const std::string& dir = "");

}  // namespace warren
