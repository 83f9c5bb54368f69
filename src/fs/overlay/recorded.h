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

}  // namespace warren
