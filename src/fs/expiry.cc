#include "fs/expiry.h"

#include <limits>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren {
namespace {

constexpr std::size_t kSecondsDigitsMax = 15;
constexpr std::size_t kFractionDigitsMax = 9;

bool is_number(std::string_view text, std::size_t digits_max) {
  return !text.empty() && text.size() <= digits_max && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

Result<std::int64_t> parse_expiry(std::string_view text) {
  std::size_t point = text.find('.');
  std::string_view seconds = text.substr(0, point);
  std::string_view fraction = point == text.npos ? std::string_view() : text.substr(point + 1);
  bool is_valid =
      is_number(seconds, kSecondsDigitsMax) && (point == text.npos || is_number(fraction, kFractionDigitsMax));
  if (!is_valid) {
    return Error(Code::kInvalid, fmt::format("{} takes a time in Unix seconds, not {}", kExpiryXattr, quote(text)));
  }
  std::string thousandths = fmt::format("{:0<3}", fraction.substr(0, 3));
  return *parse_number<std::int64_t>(seconds) * 1000 + *parse_number<std::int64_t>(thousandths);
}

std::string format_expiry(std::int64_t at_ms) { return fmt::format("{}.{:03}", at_ms / 1000, at_ms % 1000); }

Result<std::int64_t> expiry_after(Clock& clock, std::chrono::milliseconds time_to_live) {
  constexpr std::int64_t kLatest = 999'999'999'999'999'000;  // as many seconds as parse_expiry takes
  if (time_to_live.count() <= 0) {
    return Error(Code::kInvalid, fmt::format("a time to live of {} ms is not positive", time_to_live.count()));
  }
  std::int64_t at = 0;
  bool is_too_far = __builtin_add_overflow(clock.now_us() / 1000, std::int64_t{time_to_live.count()}, &at);
  return is_too_far || at > kLatest ? kLatest : at;
}

Result<std::optional<std::int64_t>> find_expiry(FileSystem& fs, Inode node) {
  Result<std::string> text = fs.get_xattr(node, kExpiryXattr);
  if (text.ok()) {
    Result<std::int64_t> at = parse_expiry(*text);
    if (!at.ok()) return std::optional<std::int64_t>();  // of a filesystem that does not know the attribute
    return std::optional(*at);
  }
  Code code = text.error().code();
  // Whoever may not read a file is not told, and some filesystems have no attributes.
  if (code == Code::kNoData || code == Code::kDenied || code == Code::kUnsupported)
    return std::optional<std::int64_t>();
  return std::move(text).take_error();
}

}  // namespace warren
