// Files that expire (fs/expiry.h): the option --ttl, and how it is shown.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "cli/context.h"
#include "cli/syntax/args.h"
#include "fs/file_system.h"

namespace warren::cli {

Option ttl_option();
// When a file that is written now expires; nullopt without --ttl.
Result<std::optional<std::int64_t>> find_expiry_option(Context& context, const Arguments& args);

// A directory, a link or a device does not expire.
Result<std::optional<std::int64_t>> expiry_of(FileSystem& fs, const Attributes& node);
Timestamp timestamp_of(std::int64_t at_ms);
void set_expiry(Json& object, const std::optional<std::int64_t>& expires_at_ms);  // "expires_at_ms", if there is one

}  // namespace warren::cli
