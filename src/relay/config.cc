#include "relay/config.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/path.h"
#include "relay/names.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kNumberMax = std::int64_t{1} << 40;

Result<std::int64_t> number(const std::string& key, const Json& value, std::int64_t least) {
  if (value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= kNumberMax) {
    return value.get<std::int64_t>();
  }
  return Error(Code::kInvalid, fmt::format("config.json: {} is a whole number from {}", quote(key), least));
}

Status set(Config& config, const std::string& key, const Json& value) {
  if (key == "lead") {
    if (!value.is_string()) return Error(Code::kInvalid, "config.json: 'lead' is the name of an agent");
    config.lead = value.get<std::string>();
    return check_agent_name(config.lead).within("config.json: 'lead'");
  }
  if (key == "message_bytes_max") {
    config.message_bytes_max = static_cast<std::uint64_t>(WARREN_TRY(number(key, value, 1)));
  } else if (key == "rate_per_second") {
    config.rate_per_second = WARREN_TRY(number(key, value, 0));
  } else if (key == "settle_ms") {
    config.settle = std::chrono::milliseconds(WARREN_TRY(number(key, value, 1)));
  } else if (key == "rescan_ms") {
    config.rescan = std::chrono::milliseconds(WARREN_TRY(number(key, value, 100)));
  } else if (key == "deadline_ms") {
    config.deadline = std::chrono::milliseconds(WARREN_TRY(number(key, value, 1)));
  } else if (key == "attachment_bytes_max") {
    config.attachment_bytes_max = static_cast<std::uint64_t>(WARREN_TRY(number(key, value, 1)));
  } else if (key == "attachment_keep_ms") {
    config.attachment_keep = std::chrono::milliseconds(WARREN_TRY(number(key, value, 0)));
  } else if (key == "log_bytes_max") {
    config.log_bytes_max = static_cast<std::uint64_t>(WARREN_TRY(number(key, value, 4096)));
  } else if (key == "spawn") {
    config.spawn = WARREN_TRY(parse_spawn_config(value));
  } else if (key == "continuity") {
    config.continuity = WARREN_TRY(parse_continuity_config(value));
  } else if (key == "inactive_ms") {
    config.inactive = std::chrono::milliseconds(WARREN_TRY(number(key, value, 0)));
  } else {
    return Error(Code::kInvalid, fmt::format("config.json: unknown key {}", quote(key)));
  }
  return Ok{};
}

}  // namespace

Result<Config> parse_config(std::string_view json) {
  Json parsed = WARREN_TRY(parse_json(json).within("config.json"));
  if (!parsed.is_object()) return Error(Code::kInvalid, "config.json: not an object");
  Config config;
  for (const auto& [key, value] : parsed.items()) WARREN_TRY(set(config, key, value));
  return config;
}

}  // namespace warren::relay
