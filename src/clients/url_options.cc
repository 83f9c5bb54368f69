#include "clients/url_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/ascii.h"
#include "base/path.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kLongestDuration = std::chrono::hours(1);

std::optional<std::chrono::milliseconds> parse_duration_option(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t ms;
  };
  constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    auto number = parse_number<std::uint32_t>(text.substr(0, text.size() - unit.name.size()));
    if (number) return std::chrono::milliseconds(*number * unit.ms);
  }
  return std::nullopt;
}

}  // namespace

Result<std::chrono::milliseconds> duration_option(const Url& url, std::string_view name,
                                                  std::chrono::milliseconds otherwise) {
  const std::string* text = url.find(name);
  if (text == nullptr) return otherwise;
  auto value = parse_duration_option(*text);
  if (!value || value->count() == 0 || *value > kLongestDuration) {
    return Error(Code::kInvalid,
                 fmt::format("the URL's option {}={} is not a duration up to an hour", name, quote(*text)),
                 "such as 500ms, 10s or 2m");
  }
  return *value;
}

Result<std::size_t> number_option(const Url& url, std::string_view name, std::size_t otherwise, std::size_t min,
                                  std::size_t max) {
  const std::string* text = url.find(name);
  if (text == nullptr) return otherwise;
  auto value = parse_number<std::size_t>(*text);
  if (!value || *value < min || *value > max) {
    return Error(Code::kInvalid,
                 fmt::format("the URL's option {}={} is not a number from {} to {}", name, quote(*text), min, max));
  }
  return *value;
}

Status check_options(const Url& url, std::span<const std::string_view> known) {
  for (const auto& [name, value] : url.query) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Error(Code::kInvalid, fmt::format("the URL has the unknown option {}", quote(name)),
                 fmt::format("options: {}", fmt::join(known, ", ")));
  }
  return Ok{};
}

}  // namespace warren
