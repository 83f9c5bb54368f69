// Where one mount of a tree ends and another begins (fs/mounts/mount_fs.h), asked through any wrapper around it.
#pragma once

#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Whether a directory is a mount point or leads to one. It changes nothing, and costs nothing where directories count
// their links; elsewhere it reads the first entry of one directory per level.
Result<bool> leads_to_mount(FileSystem& fs, const Attributes& node);

// kBusy for such a directory: it cannot be removed or moved, so nothing in it may be removed for that. Succeeds for a
// path that does not exist.
Status check_no_mount(FileSystem& fs, std::string_view path);

// The error of check_no_mount.
Error refuse_mount(std::string_view path);

}  // namespace warren
