// A node's attributes as JSON, the same wherever they appear.
#pragma once

#include <string_view>

#include "base/json.h"
#include "fs/types.h"

namespace warren::cli {

// {"path" or whatever `key` says, "type", "size", "mode", "inode", "links", "uid", "gid", times}
Json attributes_json(std::string_view key, std::string_view name, const Attributes& node);

}  // namespace warren::cli
