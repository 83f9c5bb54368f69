// Whether the content of a file is encrypted where it is stored: the extended attribute "user.warren.encrypted", whose
// value is the name of the key. It can only be read, and is not listed, so that no copy tries to set it.
#pragma once

#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

inline constexpr std::string_view kEncryptedXattr = "user.warren.encrypted";

Result<bool> is_encrypted(FileSystem& fs, Inode node);

}  // namespace warren
