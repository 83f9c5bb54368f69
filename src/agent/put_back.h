// Makes one path of a tree what it is in another one.
#pragma once

#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// The path and everything below it in `to` becomes what it is in `from`: content, modes, owners, times of files, and
// extended attributes. What `from` does not have is removed; missing parents are created. One Unit. Files keep their
// inodes where they exist; names of one file in `from` become names of one file.
Status put_back(FileSystem& from, FileSystem& to, std::string_view path);

}  // namespace warren
