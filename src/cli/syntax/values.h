// Parses and formats numbers, sizes, times and durations for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace warren::cli {

Result<std::int64_t> parse_integer(std::string_view text);
Result<std::int64_t> parse_count(std::string_view text);     // 0 or more
Result<std::uint32_t> parse_user_id(std::string_view text);  // a numeric user or group id
Result<std::uint64_t> parse_size(std::string_view text);     // 4096, 64K, 1.5GiB: powers of 1024
Result<std::optional<std::uint64_t>> parse_size_or_none(std::string_view text);
// 500ms, 30s, 5m, 2h, 1d; never without a unit.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

enum class Zone { kLocal, kUtc };

// Unix seconds, or a date and time: in UTC if it ends in 'Z', else in the zone.
Result<std::int64_t> parse_time(std::string_view text, Zone zone = Zone::kUtc);

// "2026-01-31 12:00:00"; the number itself when it is out of the calendar's range. Commands use Output::time and
// Output::size, which know what the user wants to see.
std::string format_time(std::int64_t seconds, Zone zone = Zone::kUtc);
std::string format_time_full(Timestamp time, Zone zone = Zone::kUtc);  // with nanoseconds, and "UTC" or "+0200"
std::string format_mode(std::uint32_t mode);                           // "drwxr-xr-x"
std::string_view type_word(std::uint32_t mode);                        // "directory"

}  // namespace warren::cli
