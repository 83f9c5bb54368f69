// The key-value store: JSON values under text keys (kv_store), with an optional time to live.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "db/database.h"
#include "db/statement.h"

namespace warren {

class Store;

struct KvEntry {
  std::string key;
  std::string value;            // JSON text
  std::int64_t created_at = 0;  // Unix seconds
  std::int64_t updated_at = 0;
  std::optional<std::int64_t> expires_at_ms;
};

struct KvListOptions {
  std::string prefix;
  std::string after;  // continue after this key
  std::size_t limit = SIZE_MAX;
};

// Thread-safe. A pair does not exist for our readers once its time to live is over;
// its rows are removed by the next write to that key, when the agent is next opened, or by a mount. (AgentFS programs,
// which do not know about time to live, see the pair until then. If one of them writes the pair after it expired, that
// is a new pair, which stays.)
class KeyValue {
 public:
  static Result<std::unique_ptr<KeyValue>> open(Store& store);

  Result<std::optional<std::string>> find(std::string_view key);
  Result<std::string> get(std::string_view key);  // kNotFound
  // Whether the key's time to live is over and its row is still there.
  Result<bool> has_expired(std::string_view key);

  // A key is 1 to limits::kKeyBytes bytes without NUL (kInvalid, kLimit), a value valid JSON
  // (kInvalid) of at most limits::kValueBytes (kTooLarge). Without a time to live, one set earlier
  // is dropped; one that is not positive is kInvalid.
  Status set(std::string_view key, std::string_view json,
             std::optional<std::chrono::milliseconds> time_to_live = std::nullopt);

  // Sets the value, without a time to live, only if it is now `expected`, byte
  // for byte, or absent for nullopt; otherwise kConflict and nothing changes.
  Status compare_and_set(std::string_view key, const std::optional<std::string>& expected, std::string_view json);

  // Both are kNoSpace if the keys and files together would be more than the agent's quota of bytes.

  Result<bool> remove(std::string_view key);                                 // whether it existed
  Result<std::vector<std::string>> keys(const KvListOptions& options = {});  // sorted by bytes
  Result<std::vector<KvEntry>> list(const KvListOptions& options = {});      // whole pairs, sorted by bytes
  Result<std::size_t> purge_expired();                                       // how many pairs were removed
  Result<std::optional<std::int64_t>> next_expiry_ms();                      // nullopt: no pair expires
  void after_rollback() {
    expiries_known_ = false;
    bytes_.reset();
  }

 private:
  explicit KeyValue(Store& store) : store_(store) {}
  Status prepare();
  Result<std::optional<std::string>> find_pair(std::string_view key);
  Status set_pair(std::string_view key, std::string_view json, std::optional<std::chrono::milliseconds> time_to_live);
  Status compare_and_set_pair(std::string_view key, const std::optional<std::string>& expected, std::string_view json);
  Result<bool> remove_pair(std::string_view key);
  Result<bool> may_expire();
  Status prepare_readers();
  void keep(const Database::CommitMark& mark, std::string_view key, std::string_view value);
  std::int64_t now_ms();
  std::optional<std::int64_t> expiry_of(std::optional<std::chrono::milliseconds> time_to_live);
  Result<std::uint64_t> count_bytes();
  Result<std::uint64_t> size_of(std::string_view key);
  Result<std::optional<std::uint64_t>> check_quota(std::string_view key, std::string_view json);
  Status write(std::string_view key, std::string_view json, std::optional<std::int64_t> expires_at_ms);
  Result<bool> drop_if_expired(std::string_view key);
  Result<std::vector<std::string>> expired_keys(std::int64_t now);

  Store& store_;
  bool expiries_known_ = false;
  bool has_expiries_ = false;  // at expiries_epoch_, updated by our own writes since
  std::uint64_t expiries_epoch_ = 0;
  std::optional<std::uint64_t> bytes_;  // of all keys and values at bytes_epoch_, updated by our own writes since
  std::uint64_t bytes_epoch_ = 0;
  // Pairs read recently, valid until the next commit by anyone.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> kept_;
  std::size_t kept_bytes_ = 0;
  Database::CommitMark kept_at_{};
  Statement expired_pair_;
  Statement any_expiry_;
  Statement next_expiry_;
  Statement find_;
  Statement keys_;
  Statement list_;
  Statement upsert_;
  Statement delete_;
  Statement delete_expired_;
  Statement find_expiry_;
  Statement set_expiry_;
  Statement clear_expiry_;
  Statement expired_;
  Statement list_due_;
  Statement clear_expiries_;
  Statement sum_;
  Statement size_of_;
};

}  // namespace warren
