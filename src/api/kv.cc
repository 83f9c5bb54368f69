#include <warren/v1/kv.h>

#include <utility>

#include "api/state.h"
#include "store/tables/kv.h"

namespace warren::v1 {
namespace {

warren::KvListOptions to_internal(const KvListOptions& options) {
  return {.prefix = options.prefix, .after = options.after, .limit = options.limit};
}

}  // namespace

Result<std::optional<std::string>> KeyValue::find(std::string_view key) { return state_->agent->kv().find(key); }

Result<std::string> KeyValue::get(std::string_view key) { return state_->agent->kv().get(key); }

Status KeyValue::set(std::string_view key, std::string_view json,
                     std::optional<std::chrono::milliseconds> time_to_live) {
  return state_->agent->kv().set(key, json, time_to_live);
}

Status KeyValue::compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                                 std::string_view json) {
  return state_->agent->kv().compare_and_set(key, expected, json);
}

Result<bool> KeyValue::remove(std::string_view key) { return state_->agent->kv().remove(key); }

Result<std::vector<std::string>> KeyValue::keys(const KvListOptions& options) {
  return state_->agent->kv().keys(to_internal(options));
}

Result<std::vector<KvEntry>> KeyValue::list(const KvListOptions& options) {
  std::vector<warren::KvEntry> found = WARREN_TRY(state_->agent->kv().list(to_internal(options)));
  std::vector<KvEntry> entries;
  entries.reserve(found.size());
  for (warren::KvEntry& entry : found) {
    entries.push_back({.key = std::move(entry.key),
                       .value = std::move(entry.value),
                       .created_at = entry.created_at,
                       .updated_at = entry.updated_at,
                       .expires_at_ms = entry.expires_at_ms});
  }
  return entries;
}

}  // namespace warren::v1
