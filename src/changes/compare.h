// Whether two nodes of two trees are the same, as far as a diff is concerned.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// By streaming, up to the first difference. Both are regular files.
Result<bool> has_same_content(FileSystem& a, const Attributes& file_a, FileSystem& b, const Attributes& file_b);

// Kind, permission bits and owner. Times do not count: reading and rewriting the same is no change.
bool has_same_mode(const Attributes& a, const Attributes& b);

using XattrMap = std::map<std::string, std::string>;
Result<XattrMap> read_xattrs(FileSystem& fs, Inode node);

}  // namespace warren
