#include "relay/root/config.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/path.h"
#include "pg/connection.h"
#include "relay/protocol/message.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kNumberMax = std::int64_t{1} << 40;

Result<std::int64_t> number(const std::string& key, const Json& value, std::int64_t least,
                            std::int64_t most = kNumberMax) {
  if (value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most) {
    return value.get<std::int64_t>();
  }
  return Error(Code::kInvalid,
               fmt::format("config.json: {} must be a whole number from {} to {}", quote(key), least, most));
}

Result<int> small_number(const std::string& key, const Json& value, int least, int most) {
  std::int64_t given = WARREN_TRY(number(key, value, least, most));
  return static_cast<int>(given);
}

Result<Severity> severity(const Json& value) {
  std::optional<Severity> found;
  if (value.is_string()) found = find_severity(value.get<std::string>());
  if (found) return *found;
  return Error(Code::kInvalid, "config.json: 'log_level' must be debug, info, warning or error");
}

// Handles the keys for logs, metrics and retention; false: another key.
Result<bool> set_observed(Config& config, const std::string& key, const Json& value) {
  if (key == "log_files") {
    config.log_files = WARREN_TRY(small_number(key, value, 0, 100));
  } else if (key == "log_level") {
    config.log_level = WARREN_TRY(severity(value));
  } else if (key == "disk_alert_percent") {
    config.disk_alert_percent = WARREN_TRY(small_number(key, value, 1, 100));
  } else if (key == "archive_days") {
    config.archive_days = WARREN_TRY(small_number(key, value, 0, 36'500));
  } else if (key == "metrics" && (value.is_string() || value.is_number_unsigned())) {
    config.metrics = value.is_string() ? value.get<std::string>() : std::to_string(value.get<std::uint64_t>());
  } else if (key == "metrics_public" && value.is_boolean()) {
    config.metrics_public = value.get<bool>();
  } else if (key == "metrics" || key == "metrics_public") {
    return Error(Code::kInvalid, fmt::format("config.json: {} must be {}", quote(key),
                                             key == "metrics" ? "[ADDRESS:]PORT" : "true or false"));
  } else {
    return false;
  }
  return true;
}

Status set(Config& config, const std::string& key, const Json& value) {
  if (key == "ledger") {
    if (!value.is_string()) return Error(Code::kInvalid, "config.json: 'ledger' must be a database URL");
    config.ledger = value.get<std::string>();
    return pg::check_postgres_url(config.ledger).within("config.json: 'ledger'");
  }
  if (key == "lead") {
    if (!value.is_string()) return Error(Code::kInvalid, "config.json: 'lead' must be an agent name");
    config.lead = value.get<std::string>();
    return check_agent_name(config.lead).within("config.json: 'lead'");
  }
  if (key == "message_bytes_max") {
    config.message_bytes_max = static_cast<std::uint64_t>(WARREN_TRY(number(key, value, 1, kMessageBytesMost)));
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
  } else if (key == "attachment_carry_bytes_max") {
    config.attachment_carry_bytes_max = static_cast<std::uint64_t>(WARREN_TRY(number(key, value, 0)));
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
  } else if (!WARREN_TRY(set_observed(config, key, value))) {
    return Error(Code::kInvalid, fmt::format("config.json: unknown key {}", quote(key)));
  }
  return Ok{};
}

}  // namespace

Config::Config() = default;
Config::Config(const Config&) = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Result<Config> parse_config(std::string_view json) {
  Json parsed = WARREN_TRY(parse_json(json).within("config.json"));
  if (!parsed.is_object()) return Error(Code::kInvalid, "config.json: not an object");
  Config config;
  for (const auto& [key, value] : parsed.items()) WARREN_TRY(set(config, key, value));
  return config;
}

}  // namespace warren::relay
