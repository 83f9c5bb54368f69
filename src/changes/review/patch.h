// Writes changes as a patch for `git apply` and `patch -p1`, and counts lines for `diff --stat`.
//
// A patch contains files and symbolic links with their content and executable bit; a renamed directory becomes a rename
// of each file in it. Directories, owners, other permission bits and extended attributes are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/changes.h"
#include "text/diff/git_patch.h"

namespace warren {

// A file or link before and after the change; nullopt where it did not exist.
struct ChangedFile {
  struct Side {
    std::string path;  // before: in the base; after: in the merged tree
    Attributes node;
  };
  std::optional<Side> before;  // as the agent saw it
  std::optional<Side> after;
  const TreeChange* change = nullptr;  // null for a file that moved with a directory

  const std::string& path() const { return after ? after->path : before->path; }
  bool is_renamed() const { return before && after && before->path != after->path; }
};

// The changes must outlive the result. Deleted files first, the rest sorted by path. O(changes + files in renamed
// directories).
Result<std::vector<ChangedFile>> list_changed_files(const AgentOverlay& overlay,
                                                    const std::vector<TreeChange>& changes);

using PatchSink = std::function<Status(std::string_view text)>;
// Against what the agent saw, so that newer work in the base is not reverted; kConflict where that was not kept.
// Calls the sink for one file at a time. A file over limits::kPatchFileBytes, and a binary file whose former content
// was not kept, are only mentioned: git refuses such a patch.
Status write_patch(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, const PatchSink& sink,
                   BinaryContent binary = BinaryContent::kIncluded);

struct FileCounts {
  ChangedFile file;
  bool is_binary = false;  // then no lines are counted
  std::uint64_t added = 0;
  std::uint64_t deleted = 0;
};
Result<std::vector<FileCounts>> count_lines_changed(const AgentOverlay& overlay,
                                                    const std::vector<TreeChange>& changes);

}  // namespace warren
