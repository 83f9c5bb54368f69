// Answering as mount(8)'s helper, so that an agent can stand in /etc/fstab.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::cli {

// Whether the program was started under a name that mount(8) looks for: mount.warren, mount.fuse.warren.
bool is_mount_helper(std::string_view program_name);

// From "SOURCE DIR [-sfnv] [-o OPTION,...]" to the words of `warren mount`; to nothing with -f, which
// asks for everything but the mount itself. kInvalid names what it cannot do.
Result<std::vector<std::string>> mount_words(std::span<const std::string> given);

}  // namespace warren::cli
