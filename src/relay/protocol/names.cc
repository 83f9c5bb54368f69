#include "relay/protocol/names.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren::relay {
namespace {

constexpr std::size_t kNameBytes = 63;
constexpr std::string_view kSuffix = ".msg";
constexpr std::array<std::string_view, 4> kReserved = {kOrchestrator, "system", "root", "admin"};

bool is_name_byte(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; }

bool is_reserved(std::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), to_lower(name)) != kReserved.end();
}

bool is_well_formed(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytes && std::all_of(name.begin(), name.end(), is_name_byte);
}

}  // namespace

bool is_agent_name(std::string_view name) { return is_well_formed(name) && is_letter(name[0]) && !is_reserved(name); }

Status check_agent_name(std::string_view name) {
  if (is_agent_name(name)) return Ok{};
  if (is_reserved(name)) return Error(Code::kInvalid, fmt::format("{} is a reserved name", quote(name)));
  return Error(Code::kInvalid, fmt::format("{} is not a valid agent name", quote(name)),
               "a letter, then letters, digits, '_' and '-', 63 at most");
}

Status check_channel_name(std::string_view name) {
  if (is_well_formed(name) && name[0] != '-') return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a valid channel name", quote(name)),
               "letters, digits, '_' and '-', 63 at most");
}

bool is_message_file(std::string_view name) {
  if (!name.ends_with(kSuffix)) return false;
  std::string_view stem = stem_of(name);
  std::size_t dash = stem.find('-');
  if (dash == stem.npos || dash == 0 || dash > 19) return false;
  std::string_view digits = stem.substr(0, dash);
  std::string_view hex = stem.substr(dash + 1);
  return hex.size() >= 8 && hex.size() <= 32 && std::all_of(digits.begin(), digits.end(), is_digit) &&
         std::all_of(hex.begin(), hex.end(), is_hex_digit);
}

std::string make_message_stem(std::int64_t timestamp_ns, std::uint64_t random) {
  return fmt::format("{:019}-{:016x}", timestamp_ns, random);
}

std::string_view stem_of(std::string_view file) {
  return file.substr(0, file.size() - std::min(file.size(), kSuffix.size()));
}

std::optional<std::int64_t> timestamp_of(std::string_view file) {
  auto end = std::find_if_not(file.begin(), file.end(), is_digit);
  return parse_number<std::int64_t>(std::string_view(file.begin(), end));
}

std::string make_message_id(std::string_view sender, std::string_view stem) {
  return fmt::format("{}/{}", sender, stem);
}

}  // namespace warren::relay
