// Makes paths of a tree what they are in another one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Each path and everything below it in `to` becomes what it is in `from`: content, modes, owners, times of files, and
// extended attributes. What `from` does not have is removed; missing parents are created. One unit. Files keep their
// inodes where they exist and have no other name; names of one file in `from` become names of one file. `prepare` is
// called for each file in `to` while it is empty, before it gets the content.
using PrepareFile = std::function<Status(const std::string& path)>;
Status put_back(FileSystem& from, FileSystem& to, const std::vector<std::string>& paths,
                const PrepareFile& prepare = {});

}  // namespace warren
