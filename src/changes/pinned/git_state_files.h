// Collects files of a git directory that are a part of its state: the index, what is under way, and logs.
//
// Links are not followed, and other nodes than files are left out. Read as a part of read_git_at_rest: what vanishes
// meanwhile is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/pinned/git_state.h"
#include "changes/pinned/pinned_git.h"
#include "fs/file_system.h"

namespace warren {

// Git appends to these logs. The list of stashes is one, and `git checkout -` reads that of HEAD.
inline constexpr std::string_view kGitLogsDir = "logs";
inline constexpr std::string_view kGitLogsOfReferences = "logs/refs";

bool is_git_index(std::string_view name);      // or a part of a split one
bool is_under_way_dir(std::string_view name);  // of a rebase, a cherry-pick or the like

// For one thread. Paths are below the git directory, as in GitStateNode.
class GitStateFiles {
 public:
  // `dir` is the git directory in `fs`. What is added goes to the end of `nodes`, which must outlive the object.
  GitStateFiles(FileSystem& fs, std::string_view dir, std::vector<GitStateNode>& nodes)
      : fs_(fs), dir_(dir), nodes_(nodes) {}

  Result<std::optional<Attributes>> find(std::string_view path);
  Result<std::string> read(std::string_view path, std::uint64_t bytes_max);

  // Leaves out a large file at the top that git cannot have made. kTooLarge above the limits, also of all together.
  Status add_file(const std::string& path, const Attributes& node);
  // A directory and all that is in it. kLimit for too much.
  Status add_tree(const std::string& dir, const Attributes& as);
  // Of a directory of logs, those of HEAD, the stash and the branches. Others, such as those of remote branches, are
  // added as directories that go on showing the base's. So is one with too many. A log that is too long is left out.
  Status add_logs(const std::string& dir, const Attributes& as);

 private:
  Status add_tree(const std::string& dir, const Attributes& as, int depth);
  Status add_logs(const std::string& dir, const Attributes& as, int depth);

  FileSystem& fs_;
  std::string dir_;
  std::vector<GitStateNode>& nodes_;
  std::uint64_t bytes_left_ = limits::kGitStateBytes;
  std::uint64_t log_bytes_left_ = limits::kGitLogsBytes;
};

}  // namespace warren
