// An agent's state: JSON values under text keys.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>

namespace warren::v1 {

struct AgentState;

struct KvEntry {
  std::string key;
  std::string value;            // JSON text
  std::int64_t created_at = 0;  // Unix seconds
  std::int64_t updated_at = 0;
  std::optional<std::int64_t> expires_at_ms{};
};

struct KvListOptions {
  std::string prefix{};
  std::string after{};  // only keys that sort after this one
  std::size_t limit = SIZE_MAX;
};

// A view of an open agent: cheap to copy, valid as long as the agent. Thread-safe.
class KeyValue {
 public:
  Result<std::optional<std::string>> find(std::string_view key);
  Result<std::string> get(std::string_view key);  // kNotFound

  // The value is JSON text (kInvalid otherwise): a string is "\"text\"", quotes included. Without a time to live the
  // pair does not expire, even if an earlier set gave it one.
  Status set(std::string_view key, std::string_view json,
             std::optional<std::chrono::milliseconds> time_to_live = std::nullopt);
  // Sets the value only if the current one is `expected`, byte for byte, or absent for nullopt; else kConflict.
  Status compare_and_set(std::string_view key, const std::optional<std::string>& expected, std::string_view json);
  Result<bool> remove(std::string_view key);  // returns whether the key existed

  Result<std::vector<std::string>> keys(const KvListOptions& options = {});  // sorted by bytes
  Result<std::vector<KvEntry>> list(const KvListOptions& options = {});

 private:
  friend class Agent;
  explicit KeyValue(AgentState& state) : state_(&state) {}
  AgentState* state_;
};

}  // namespace warren::v1
