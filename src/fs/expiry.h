// When a file ceases to exist: the extended attribute "user.warren.expires", in Unix seconds with an optional fraction.
//
// As an attribute it reaches a file through every wrapper and every door; in a mount, setfattr(1) sets it. A filesystem
// that knows it (SqliteFs, MemoryFs) shows the file to nobody once the wall clock has reached that time, and removes it
// later, as unlink would: whoever has it open can go on reading. Only regular files expire. The attribute stays with
// the file when it is renamed or appended to; cutting the file to nothing, which every replacing write does, drops it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

inline constexpr std::string_view kExpiryXattr = "user.warren.expires";

// Milliseconds since 1970. kInvalid for anything but "1789000000" or "1789000000.25".
Result<std::int64_t> parse_expiry(std::string_view text);
std::string format_expiry(std::int64_t at_ms);

// The time to store for a time to live from now; the last one possible if it is further away. kInvalid unless positive.
Result<std::int64_t> expiry_after(Clock& clock, std::chrono::milliseconds time_to_live);

// Of a node; nullopt if it does not expire.
Result<std::optional<std::int64_t>> find_expiry(FileSystem& fs, Inode node);

}  // namespace warren
