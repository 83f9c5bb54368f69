// Changing a file that belongs to somebody.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

// As replace_host_file, for a file that exists and is `as`: the new one has its owner and mode. If the owner cannot be
// kept, nothing is changed; if only the group cannot, the new group gets no permissions.
Status rewrite_host_file(const std::string& path, std::string_view content, const struct stat& as);

}  // namespace warren
