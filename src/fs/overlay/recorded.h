// Whether a node of the upper layer is still what was recorded with its origin.
#pragma once

#include "fs/overlay/upper_layer.h"

namespace warren {

// Whether the agent has not changed a node since the base's node was recorded as its origin. Never for directories.
inline bool is_as_recorded(const Attributes& node, const Attributes& seen) {
  if (node.is_directory()) return false;
  bool is_same_content = node.size == seen.size && node.mtime == seen.mtime;
  return is_same_content && node.mode == seen.mode && node.owner == seen.owner && node.ctime <= seen.ctime;
}

// A copy of a file of the base: as it is in the upper layer, as the base's file was recorded, and as that is now.
struct CopiedFile {
  const Attributes& node;
  const Attributes& seen;
  const Attributes& now;
};

// Whether a copy that was written or touched equals what was recorded all the same: the agent has not changed the file,
// whatever the base has now. Compares the content, so only for small text files, whose original is kept, and for files
// of which nothing was copied. Extended attributes must be those that the base has now. Call within a unit of `upper`.
Result<bool> equals_seen(UpperLayer& upper, FileSystem& base, const CopiedFile& file);

}  // namespace warren
