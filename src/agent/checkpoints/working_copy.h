// A tree of files as rows of wr_mounted: how working memory is kept in checkpoints.
//
// The key is the path without its leading slash, the value the content, of a link its target. Everything else about a
// node, in JSON, is the row's `attributes`. Hard links become files of their own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/memory/memory_fs.h"
#include "store/history/mounted_rows.h"

namespace warren {

// Counts down what may be copied into an agent file.
struct CopyBudget {
  std::uint64_t values;
  std::uint64_t bytes;

  Status take(std::string_view mount, std::uint64_t size);  // kTooLarge
};

struct CopiedNode {
  MountedRow row;
  std::string token;
  std::optional<std::string> value;  // unset: as it was at the last copy
};

// What was copied last, by key.
struct CopiedBefore {
  std::map<std::string, MountedRow> rows;
  std::map<std::string, std::string> tokens;
};

// All nodes but the root, sorted by key, at one moment. `identity` stands for this tree in tokens: another tree at the
// same place has another.
Result<std::vector<CopiedNode>> copy_tree(FileSystem& fs, std::string_view mount, std::string_view identity,
                                          const CopiedBefore& before, CopyBudget& budget);

// The tree that the rows of a mount describe, without what has expired. kCorrupt if they do not describe one.
Result<std::unique_ptr<MemoryFs>> tree_of_rows(MountedRows& rows, std::string_view mount, Clock& clock);

// Whether the key stands for a folder of a store that is otherwise empty, and is not a value.
bool is_folder_marker(std::string_view key);

// Whether two rows differ in more than times.
bool is_same_copy(const MountedRow& a, const MountedRow& b);

}  // namespace warren
