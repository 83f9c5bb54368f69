// A node's attributes as JSON, in the same form everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "fs/types.h"

namespace warren::cli {

// A number up to 2^53 - 1, which every reader of JSON takes exactly; a larger one is text.
Json inode_json(Inode inode);
Json number_or_null(const std::optional<std::uint64_t>& number);

// {`key`: name, "type", "size", "mode", "inode", "links", "uid", "gid", times}
Json attributes_json(std::string_view key, std::string_view name, const Attributes& node);

}  // namespace warren::cli
