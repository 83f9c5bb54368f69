#include "cli/syntax/values.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>

#include <sys/stat.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/date.h"
#include "base/path.h"

namespace warren::cli {
namespace {

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_number<Number>(text);
}

// Splits "1.5K" into the number and the unit.
std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text) {
  std::size_t end = text.find_first_not_of("0123456789.");
  if (end == 0 || text.empty()) return std::nullopt;
  std::string_view digits = text.substr(0, end);
  std::optional<double> value = parse_number<double>(digits);
  if (!value) return std::nullopt;
  return std::pair(*value, end == text.npos ? std::string_view() : text.substr(end));
}

Error bad(std::string_view text, std::string_view what) {
  return Error(Code::kInvalid, fmt::format("{} is not {}", quote(text), what));
}

std::optional<std::tm> calendar_of(std::int64_t seconds, Zone zone) {
  std::time_t time = seconds;
  std::tm parts{};
  bool is_found = (zone == Zone::kUtc ? ::gmtime_r(&time, &parts) : ::localtime_r(&time, &parts)) != nullptr;
  return is_found ? std::optional(parts) : std::nullopt;
}

}  // namespace

Result<std::int64_t> parse_integer(std::string_view text) {
  if (auto value = whole_number<std::int64_t>(text)) return *value;
  return bad(text, "a whole number");
}

Result<std::int64_t> parse_count(std::string_view text) {
  if (auto value = whole_number<std::int64_t>(text); value && *value >= 0) return *value;
  return bad(text, "a whole number from 0 to 9223372036854775807");
}

Result<std::uint32_t> parse_user_id(std::string_view text) {
  constexpr std::uint32_t kNoChange = UINT32_MAX;  // to chown(2) this means "leave the owner as it is"
  if (auto value = whole_number<std::uint32_t>(text); value && *value != kNoChange) return *value;
  return bad(text, "a numeric user or group id");
}

Result<std::uint64_t> parse_size(std::string_view text) {
  constexpr std::string_view kWhat = "a size, such as 4096, 64K or 1.5G";
  if (auto plain = whole_number<std::uint64_t>(text)) return *plain;
  auto parts = number_and_unit(text);
  if (!parts) return bad(text, kWhat);
  auto [number, unit] = *parts;
  constexpr std::string_view kUnits = "KMGTP";
  std::size_t power = unit.empty() ? kUnits.npos : kUnits.find(static_cast<char>(unit[0] & ~0x20));
  bool is_known =
      unit == "B" || (power != kUnits.npos && (unit.size() == 1 || unit.substr(1) == "B" || unit.substr(1) == "iB"));
  if (!is_known) return bad(text, kWhat);
  double bytes = unit == "B" ? number : number * std::pow(1024.0, static_cast<double>(power + 1));
  if (bytes >= std::ldexp(1.0, 62)) return bad(text, "a size below 4 EiB");
  return static_cast<std::uint64_t>(bytes);
}

Result<std::optional<std::uint64_t>> parse_size_or_none(std::string_view text) {
  if (text == "none") return std::optional<std::uint64_t>();
  std::uint64_t size = WARREN_TRY(parse_size(text));
  return std::optional(size);
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits{
      {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
  if (auto parts = number_and_unit(text)) {
    // Not seconds: whoever deletes what is older than 7 means days.
    if (parts->second.empty() && parts->first > 0)
      return Error(Code::kInvalid,
                   fmt::format("{} has no unit: write {}d, {}h, {}m or {}s", quote(text), text, text, text, text));
    for (const auto& [unit, factor] : kUnits) {
      if (parts->second != unit) continue;
      double ms = parts->first * factor;
      if (ms >= 1 && ms < 1e15) return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
    }
  }
  return bad(text, "a duration, such as 30s, 5m, 2h or 1d");
}

Result<std::int64_t> parse_time(std::string_view text, Zone zone) {
  if (auto seconds = whole_number<std::int64_t>(text)) return *seconds;
  if (auto seconds = parse_date(text, zone == Zone::kUtc ? DateZone::kUtc : DateZone::kLocal)) return *seconds;
  if (parse_duration(text).ok()) {
    return Error(Code::kInvalid,
                 fmt::format("{} is a length of time; a point in time is needed, such as 2026-01-01T00:00:00Z or "
                             "\"$(date -d '1 hour ago' +%s)\"",
                             quote(text)));
  }
  return bad(text, "a time, such as 1767225600 or 2026-01-01T00:00:00Z");
}

std::string format_time(std::int64_t seconds, Zone zone) {
  std::optional<std::tm> found = calendar_of(seconds, zone);
  if (!found) return std::to_string(seconds);
  const std::tm& parts = *found;
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", std::int64_t{parts.tm_year} + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string format_time_full(Timestamp time, Zone zone) {
  std::string suffix = "UTC";
  if (std::optional<std::tm> parts = calendar_of(time.seconds, zone); parts && zone == Zone::kLocal) {
    long minutes = std::labs(parts->tm_gmtoff) / 60;
    suffix = fmt::format("{}{:02}{:02}", parts->tm_gmtoff < 0 ? '-' : '+', minutes / 60, minutes % 60);
  }
  return fmt::format("{}.{:09} {}", format_time(time.seconds, zone), time.nanoseconds, suffix);
}

std::string format_mode(std::uint32_t mode) {
  std::string out = "?rwxrwxrwx";
  switch (mode & S_IFMT) {
    case S_IFREG: out[0] = '-'; break;
    case S_IFDIR: out[0] = 'd'; break;
    case S_IFLNK: out[0] = 'l'; break;
    case S_IFIFO: out[0] = 'p'; break;
    case S_IFSOCK: out[0] = 's'; break;
    case S_IFCHR: out[0] = 'c'; break;
    case S_IFBLK: out[0] = 'b'; break;
    default: break;
  }
  for (std::uint32_t bit = 0; bit < 9; ++bit) {
    if ((mode & (0400U >> bit)) == 0) out[bit + 1] = '-';
  }
  if ((mode & S_ISUID) != 0) out[3] = out[3] == 'x' ? 's' : 'S';
  if ((mode & S_ISGID) != 0) out[6] = out[6] == 'x' ? 's' : 'S';
  if ((mode & S_ISVTX) != 0) out[9] = out[9] == 'x' ? 't' : 'T';
  return out;
}

std::string_view type_word(std::uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "directory";
    case S_IFLNK: return "symlink";
    case S_IFIFO: return "fifo";
    case S_IFSOCK: return "socket";
    case S_IFCHR: return "character device";
    case S_IFBLK: return "block device";
    default: return "unknown";
  }
}

}  // namespace warren::cli
