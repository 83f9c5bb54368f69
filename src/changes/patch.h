// Changes as a patch: unified text for `git apply` and `patch -p1`, and the counts of `diff --stat`.
//
// A patch knows files and symbolic links, their content and whether they may be executed; a renamed
// directory is a rename of each file in it. Directories, owners, other permission bits and extended
// attributes are left out, and binary content is only noted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// A file or link, before and after; absent where it was not there.
struct ChangedFile {
  struct Side {
    std::string path;  // before: of the base; after: of the merged tree
    Attributes node;
  };
  std::optional<Side> before;
  std::optional<Side> after;

  const std::string& path() const { return after ? after->path : before->path; }
  bool is_renamed() const { return before && after && before->path != after->path; }
};

// What is gone first, the rest by path. O(changes), and the files in renamed directories.
Result<std::vector<ChangedFile>> list_changed_files(const AgentOverlay& overlay,
                                                    const std::vector<TreeChange>& changes);

using PatchSink = std::function<Status(std::string_view text)>;
// One file after the other; a file over limits::kPatchFileBytes counts as binary.
Status write_patch(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, const PatchSink& sink);

struct FileCounts {
  ChangedFile file;
  bool is_binary = false;  // then there are no lines
  std::uint64_t added = 0;
  std::uint64_t deleted = 0;
};
Result<std::vector<FileCounts>> count_lines_changed(const AgentOverlay& overlay,
                                                    const std::vector<TreeChange>& changes);

}  // namespace warren
