// Everything that can be known of a filesystem, as lines to compare.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fs/file_system.h"
#include "testing/fake_clock.h"

namespace warren::testing {

// A line for each name: path, attributes, content, target, extended attributes. Inode numbers are
// replaced by the order in which they are met, so equal trees of two filesystems give equal lines.
// Where holes lie is left out; what they read as is not.
Result<std::vector<std::string>> snapshot(FileSystem& fs);

// The same of one node, which may have lost its names.
Result<std::string> snapshot_node(FileSystem& fs, Inode node);

// Makes `to` have what `from` has: names, content, attributes with all times. Hard links stay links.
Status copy_tree(FileSystem& from, Inode from_dir, FileSystem& to, Inode to_dir, FakeClock& clock,
                 std::map<Inode, Inode>& made);

}  // namespace warren::testing
