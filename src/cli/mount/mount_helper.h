// Support for being called as a helper of mount(8), so that /etc/fstab can mount agents.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::cli {

// Whether the program was called by a name that mount(8) looks for: mount.warren, mount.fuse.warren.
bool is_mount_helper(std::string_view program_name);

// Translates "SOURCE DIR [-sfnv] [-o OPTION,...]" to the arguments of `warren mount`. Returns none with -f, which
// asks for everything but the mount itself. kInvalid names an unsupported option.
Result<std::vector<std::string>> mount_words(std::span<const std::string> given);

}  // namespace warren::cli
