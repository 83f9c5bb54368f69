// Values by path in a namespace, as the specification's section 3.2 has them: JSON for .json and .jsonl, otherwise text
// or bytes as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

enum class AsIs { kNo, kYes };

// Replaces the content and makes missing directories. .json must be one JSON value, .jsonl one on each line (kInvalid),
// unless it is stored as it is. Where only appending is allowed (/mem/episodic) this appends,
// and nothing expires (kInvalid).
Status write_value(FileSystem& view, std::string_view path, std::string_view data, AsIs as_is = AsIs::kNo,
                   std::optional<std::int64_t> expires_at_ms = std::nullopt);

// A .jsonl file gets the value as one line.
Status append_value(FileSystem& view, std::string_view path, std::string_view data, AsIs as_is = AsIs::kNo);

}  // namespace warren
