// Dates and times as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace warren {

enum class DateZone { kLocal, kUtc };

// Unix seconds of "2026-01-31", "2026-01-31T12:00" or "2026-01-31 12:00:00": in UTC if it ends in 'Z', else in the
// zone.
std::optional<std::int64_t> parse_date(std::string_view text, DateZone zone = DateZone::kUtc);

}  // namespace warren
