// The content of a file for one that is still empty.
#pragma once

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Copies only data, so that holes stay holes. Both are in one mount, and `to` is empty; for use in a unit. kConflict if
// `from` shrinks meanwhile.
Status copy_content(FileSystem& fs, const Attributes& from, Inode to);

}  // namespace warren
