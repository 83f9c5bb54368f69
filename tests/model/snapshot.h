// The visible state of a filesystem, as lines to compare.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fs/file_system.h"
#include "testing/fake_clock.h"

namespace warren::testing {

// One line for each name: path, attributes, content, target, extended attributes. Inode numbers are replaced by their
// order of appearance, so equal trees of two filesystems give equal lines. The positions of holes are left out, but not
// their content.
Result<std::vector<std::string>> snapshot(FileSystem& fs);

// The line of one node, which may have lost its names.
Result<std::string> snapshot_node(FileSystem& fs, Inode node);

// Copies everything from `from` to `to`: names, content, attributes with all times. Hard links stay links.
Status copy_tree(FileSystem& from, Inode from_dir, FileSystem& to, Inode to_dir, FakeClock& clock,
                 std::map<Inode, Inode>& made);

}  // namespace warren::testing
