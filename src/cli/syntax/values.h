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
Result<std::chrono::milliseconds> parse_duration(std::string_view text);  // 500ms, 30s, 5m, 2h, 1d
Result<std::int64_t> parse_time(std::string_view text);                   // Unix seconds, or a date and time in UTC

std::string format_size(std::uint64_t bytes);  // "1.5 MiB"
// "2026-01-31 12:00:00" in UTC; the number itself when it is out of the calendar's range.
std::string format_time(std::int64_t seconds);
std::string format_time_full(Timestamp time);    // with nanoseconds and "UTC"
std::string format_mode(std::uint32_t mode);     // "drwxr-xr-x"
std::string_view type_word(std::uint32_t mode);  // "directory"

}  // namespace warren::cli
