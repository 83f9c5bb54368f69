#include "base/date.h"

#include <ctime>

#include "base/ascii.h"

namespace warren {
namespace {

// The number formed by the `count` digits at `at`.
std::optional<int> date_digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  for (char c : text.substr(at, count)) {
    if (!is_digit(c)) return std::nullopt;
  }
  return parse_number<int>(text.substr(at, count));
}

bool parse_clock_time(std::string_view text, std::tm& parts) {
  auto hour = date_digits(text, 0, 2);
  auto minute = date_digits(text, 3, 2);
  if (!hour || !minute || text[2] != ':') return false;
  std::optional<int> second = 0;
  if (text.size() > 5) {
    second = date_digits(text, 6, 2);
    if (text[5] != ':' || text.size() != 8) return false;
  }
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return false;
  parts.tm_hour = *hour;
  parts.tm_min = *minute;
  parts.tm_sec = *second;
  return true;
}

}  // namespace

std::optional<std::int64_t> parse_date(std::string_view text, DateZone zone) {
  bool is_utc = text.ends_with('Z') || zone == DateZone::kUtc;
  if (text.ends_with('Z')) text.remove_suffix(1);
  auto year = date_digits(text, 0, 4);
  auto month = date_digits(text, 5, 2);
  auto day = date_digits(text, 8, 2);
  if (!year || !month || !day || text[4] != '-' || text[7] != '-') return std::nullopt;
  if (*month < 1 || *month > 12 || *day < 1 || *day > 31) return std::nullopt;
  std::tm parts{};
  parts.tm_year = *year - 1900;
  parts.tm_mon = *month - 1;
  parts.tm_mday = *day;
  if (text.size() > 10) {
    if (text[10] != 'T' && text[10] != ' ') return std::nullopt;
    if (!parse_clock_time(text.substr(11), parts)) return std::nullopt;
  }
  parts.tm_isdst = -1;
  std::int64_t seconds = is_utc ? ::timegm(&parts) : ::mktime(&parts);
  if (parts.tm_mday != *day) return std::nullopt;  // the 31st of February
  return seconds;
}

}  // namespace warren
