// Everything that can be known of a filesystem, as lines to compare.
#pragma once

#include <string>
#include <vector>

#include "fs/file_system.h"

namespace warren::testing {

// A line for each name: path, attributes, content, target, extended attributes. Inode numbers are
// replaced by the order in which they are met, so equal trees of two filesystems give equal lines.
// Where holes lie is left out; what they read as is not.
Result<std::vector<std::string>> snapshot(FileSystem& fs);

// The same of one node, which may have lost its names.
Result<std::string> snapshot_node(FileSystem& fs, Inode node);

}  // namespace warren::testing
