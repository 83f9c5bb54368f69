// A whole directory at once, sorted by the bytes of its names.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// In one read Unit, in pages of limits::kDirPage.
Result<std::vector<DirEntry>> list_dir(FileSystem& fs, Inode dir, DirDetail detail);
Result<std::vector<std::string>> list_names(FileSystem& fs, Inode dir);

}  // namespace warren
