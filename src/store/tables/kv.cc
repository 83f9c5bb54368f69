#include "store/tables/kv.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/format_size.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "db/transaction.h"
#include "store/record/audit_log.h"
#include "store/store.h"
#include "store/tables/usage.h"

namespace warren {
namespace {

// An expiry belongs to the write that set it: if the pair's updated_at differs, an AgentFS
// program, which does not know expiries, has written the pair since, and the expiry no longer applies. A list's range
// ends before ?2, where the empty blob means "no end": every text sorts before every blob. A limit of SIZE_MAX is bound
// as -1, which is SQLite's "no limit".
constexpr Sql kExpired = "SELECT 1 FROM wr_kv_expiry WHERE key = ?1 AND set_at = ?2 AND expires_at_ms <= ?3";
constexpr Sql kKeys =
    "SELECT p.key FROM kv_store p "
    "LEFT JOIN wr_kv_expiry x ON x.key = p.key AND x.set_at = p.updated_at "
    "WHERE p.key >= ?1 AND p.key < ?2 AND (x.expires_at_ms IS NULL OR x.expires_at_ms > ?4) "
    "ORDER BY p.key LIMIT ?3";
constexpr Sql kList =
    "SELECT p.key, p.value, p.created_at, p.updated_at, x.expires_at_ms FROM kv_store p "
    "LEFT JOIN wr_kv_expiry x ON x.key = p.key AND x.set_at = p.updated_at "
    "WHERE p.key >= ?1 AND p.key < ?2 AND (x.expires_at_ms IS NULL OR x.expires_at_ms > ?4) "
    "ORDER BY p.key LIMIT ?3";

// Lists for a file without our tables, where nothing expires. They use ?4, the time, only so
// that both kinds take the same parameters.
constexpr Sql kKeysPlain =
    "SELECT key FROM kv_store WHERE key >= ?1 AND key < ?2 AND ?4 IS NOT NULL ORDER BY key LIMIT ?3";
constexpr Sql kListPlain =
    "SELECT key, value, created_at, updated_at, NULL FROM kv_store "
    "WHERE key >= ?1 AND key < ?2 AND ?4 IS NOT NULL ORDER BY key LIMIT ?3";

Status check_key(std::string_view key) {
  if (key.empty()) return Error(Code::kInvalid, "the key is empty");
  if (key.size() > limits::kKeyBytes) {
    return Error(Code::kLimit, fmt::format("the key has {} bytes; {} is the limit", key.size(), limits::kKeyBytes));
  }
  if (key.find('\0') != key.npos)
    return Error(Code::kInvalid, fmt::format("the key {} contains a NUL byte", quote(key)));
  return Ok{};
}

Status check_value(std::string_view key, std::string_view json) {
  if (json.size() > limits::kValueBytes) {
    return Error(Code::kTooLarge, fmt::format("the value for {} has {} bytes; {} is the limit", quote(key), json.size(),
                                              limits::kValueBytes));
  }
  if (!is_json(json)) {
    return Error(Code::kInvalid, fmt::format("the value for {} is not JSON", quote(key)),
                 "strings need double quotes: '\"text\"'");
  }
  return Ok{};
}

// The first key after every key that starts with `prefix`; nullopt if there is none.
std::optional<std::string> end_of(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

// A list's bounds as bytes: from `first` on, ending before `end`.
struct KeyRange {
  explicit KeyRange(const KvListOptions& options) : first(options.prefix), end(end_of(options.prefix)) {
    if (options.after.empty()) return;
    std::string next = options.after + '\0';  // nothing sorts between a text and the same text with a NUL
    if (next > first) first = std::move(next);
  }

  Statement& bind_to(Statement& statement) const {
    statement.bind(1, first);
    return end ? statement.bind(2, *end) : statement.bind(2, Bytes());
  }

  std::string first;
  std::optional<std::string> end;
};

}  // namespace

Result<std::unique_ptr<KeyValue>> KeyValue::open(Store& store) {
  std::unique_ptr<KeyValue> kv(new KeyValue(store));
  auto guard = store.database().lock();
  if (!store.schema().has_kv) return kv;
  WARREN_TRY(kv->prepare_readers());
  if (!store.is_read_only()) WARREN_TRY(kv->prepare());
  return kv;
}

Status KeyValue::prepare_readers() {
  Database& database = store_.database();
  bool may_expire = store_.schema().has_extensions;
  find_ = WARREN_TRY(database.prepare("SELECT value, updated_at FROM kv_store WHERE key = ?"));
  if (may_expire) {
    expired_pair_ = WARREN_TRY(database.prepare(kExpired));
    any_expiry_ = WARREN_TRY(database.prepare("SELECT 1 FROM wr_kv_expiry LIMIT 1"));
    next_expiry_ = WARREN_TRY(database.prepare("SELECT min(expires_at_ms) FROM wr_kv_expiry"));
  }
  keys_ = WARREN_TRY(database.prepare(may_expire ? kKeys : kKeysPlain));
  list_ = WARREN_TRY(database.prepare(may_expire ? kList : kListPlain));
  return Ok{};
}

Status KeyValue::prepare() {
  Database& database = store_.database();
  upsert_ = WARREN_TRY(
      database.prepare("INSERT INTO kv_store (key, value, created_at, updated_at) VALUES (?1, ?2, ?3, ?3) "
                       "ON CONFLICT(key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"));
  delete_ = WARREN_TRY(database.prepare("DELETE FROM kv_store WHERE key = ?"));
  delete_expired_ =
      WARREN_TRY(database.prepare("DELETE FROM kv_store WHERE key = ?1 AND updated_at = "
                                  "(SELECT set_at FROM wr_kv_expiry WHERE key = ?1 AND expires_at_ms <= ?2)"));
  find_expiry_ = WARREN_TRY(database.prepare("SELECT expires_at_ms FROM wr_kv_expiry WHERE key = ?"));
  set_expiry_ = WARREN_TRY(database.prepare(
      "INSERT INTO wr_kv_expiry (key, expires_at_ms, set_at) VALUES (?, ?, ?) "
      "ON CONFLICT(key) DO UPDATE SET expires_at_ms = excluded.expires_at_ms, set_at = excluded.set_at"));
  clear_expiry_ = WARREN_TRY(database.prepare("DELETE FROM wr_kv_expiry WHERE key = ?"));
  expired_ =
      WARREN_TRY(database.prepare("SELECT p.key FROM wr_kv_expiry x JOIN kv_store p ON p.key = x.key "
                                  "WHERE x.expires_at_ms <= ? AND x.set_at = p.updated_at"));
  list_due_ = WARREN_TRY(database.prepare("SELECT key FROM wr_kv_expiry WHERE expires_at_ms <= ?"));
  sum_ = WARREN_TRY(database.prepare("SELECT coalesce(sum(octet_length(key) + octet_length(value)), 0) FROM kv_store"));
  size_of_ = WARREN_TRY(database.prepare("SELECT octet_length(key) + octet_length(value) FROM kv_store WHERE key = ?"));
  clear_expiries_ = WARREN_TRY(database.prepare("DELETE FROM wr_kv_expiry WHERE expires_at_ms <= ?"));
  return Ok{};
}

std::int64_t KeyValue::now_ms() { return store_.clock().now_us() / 1000; }

Result<std::optional<std::string>> KeyValue::find(std::string_view key) {
  WARREN_TRY(store_.audit().note_read_of_source("kv_get", key));
  return find_pair(key);
}

Result<std::optional<std::string>> KeyValue::find_pair(std::string_view key) {
  if (!store_.schema().has_kv) return std::optional<std::string>();
  auto guard = store_.database().lock();
  std::optional<Database::CommitMark> mark = store_.database().find_commit_mark();
  if (mark && *mark == kept_at_) {
    auto kept = kept_.find(key);
    if (kept != kept_.end()) return std::optional(kept->second);
  }
  Rows rows = find_.bind(1, key).rows();  // stays open: the next query sees the same state
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  if (WARREN_TRY(may_expire())) {
    auto expired = WARREN_TRY(expired_pair_.bind(1, key).bind(2, rows.integer(1)).bind(3, now_ms()).find_integer());
    if (expired) return std::optional<std::string>();
  } else if (mark) {
    keep(*mark, key, rows.text(0));
  }
  return std::optional<std::string>(rows.text(0));
}

Result<bool> KeyValue::has_expired(std::string_view key) {
  if (!store_.schema().has_kv) return false;
  auto guard = store_.database().lock();
  Rows rows = find_.bind(1, key).rows();  // stays open: the next query sees the same state
  if (!WARREN_TRY(rows.next()) || !WARREN_TRY(may_expire())) return false;
  auto expired = WARREN_TRY(expired_pair_.bind(1, key).bind(2, rows.integer(1)).bind(3, now_ms()).find_integer());
  return expired.has_value();
}

// A value that a commit changed after the mark was read is kept too, but never found: the mark is different by then.
void KeyValue::keep(const Database::CommitMark& mark, std::string_view key, std::string_view value) {
  constexpr std::size_t kPairBytes = 4096;
  constexpr std::size_t kAllBytes = std::size_t{1} << 20;
  constexpr std::size_t kOverhead = 128;
  std::size_t bytes = key.size() + value.size() + kOverhead;
  if (bytes > kPairBytes) return;
  if (mark != kept_at_ || kept_bytes_ + bytes > kAllBytes) {
    kept_.clear();
    kept_bytes_ = 0;
    kept_at_ = mark;
  }
  if (kept_.emplace(key, value).second) kept_bytes_ += bytes;
}

// Most agents use no time to live, and then reading a pair should not pay for it. Queried again after
// another connection has written.
Result<bool> KeyValue::may_expire() {
  if (!store_.schema().has_extensions) return false;
  std::uint64_t epoch = store_.database().foreign_epoch();
  if (expiries_known_ && epoch == expiries_epoch_) return has_expiries_;
  auto any = WARREN_TRY(any_expiry_.find_integer());
  has_expiries_ = any.has_value();
  expiries_epoch_ = epoch;
  expiries_known_ = true;
  return has_expiries_;
}

Result<std::optional<std::int64_t>> KeyValue::next_expiry_ms() {
  Transaction scope = WARREN_TRY(Transaction::begin(store_.database(), Access::kSharedRead));
  WARREN_TRY(store_.database().look());
  if (!store_.schema().has_kv || !WARREN_TRY(may_expire())) return std::optional<std::int64_t>();
  Rows rows = next_expiry_.rows();
  if (!WARREN_TRY(rows.next()) || rows.is_null(0)) return std::optional<std::int64_t>();
  return std::optional(rows.integer(0));
}

Result<std::string> KeyValue::get(std::string_view key) {
  std::optional<std::string> value = WARREN_TRY(find(key));
  if (!value) return Error(Code::kNotFound, fmt::format("no key {}", quote(key)));
  return *std::move(value);
}

Status KeyValue::set(std::string_view key, std::string_view json,
                     std::optional<std::chrono::milliseconds> time_to_live) {
  return store_.audit().change_of_source("kv_set", key, json.size(), [&] { return set_pair(key, json, time_to_live); });
}

Status KeyValue::set_pair(std::string_view key, std::string_view json,
                          std::optional<std::chrono::milliseconds> time_to_live) {
  WARREN_TRY(check_key(key));
  WARREN_TRY(check_value(key, json));
  if (time_to_live && time_to_live->count() <= 0) {
    return Error(Code::kInvalid, fmt::format("a time to live of {} ms is not positive", time_to_live->count()));
  }
  Transaction change = WARREN_TRY(Transaction::begin(store_.database(), Access::kWrite));
  WARREN_TRY(write(key, json, expiry_of(time_to_live)));
  return change.commit();
}

Status KeyValue::compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                                 std::string_view json) {
  return store_.audit().change_of_source("kv_set", key, json.size(),
                                         [&] { return compare_and_set_pair(key, expected, json); });
}

Status KeyValue::compare_and_set_pair(std::string_view key, const std::optional<std::string>& expected,
                                      std::string_view json) {
  WARREN_TRY(check_key(key));
  WARREN_TRY(check_value(key, json));
  Transaction change = WARREN_TRY(Transaction::begin(store_.database(), Access::kWrite));
  std::optional<std::string> value = WARREN_TRY(find_pair(key));
  if (value != expected) {
    return Error(Code::kConflict, fmt::format("the value for {} is not the expected one", quote(key)),
                 "read the current value and try again");
  }
  WARREN_TRY(write(key, json, std::nullopt));
  return change.commit();
}

std::optional<std::int64_t> KeyValue::expiry_of(std::optional<std::chrono::milliseconds> time_to_live) {
  if (!time_to_live) return std::nullopt;
  std::int64_t at = 0;
  bool too_far = __builtin_add_overflow(now_ms(), std::int64_t{time_to_live->count()}, &at);
  return too_far ? std::numeric_limits<std::int64_t>::max() : at;
}

Result<std::uint64_t> KeyValue::count_bytes() {
  std::uint64_t epoch = store_.database().foreign_epoch();
  if (bytes_ && bytes_epoch_ == epoch) return *bytes_;
  bytes_ = static_cast<std::uint64_t>(WARREN_TRY(sum_.find_integer()).value_or(0));
  bytes_epoch_ = epoch;
  return *bytes_;
}

Result<std::uint64_t> KeyValue::size_of(std::string_view key) {
  return static_cast<std::uint64_t>(WARREN_TRY(size_of_.bind(1, key).find_integer()).value_or(0));
}

// What all pairs will have with this one; nullopt without a quota. Files are counted as they change
// (store/tables/usage.h), and pairs once by each process that sets one.
Result<std::optional<std::uint64_t>> KeyValue::check_quota(std::string_view key, std::string_view json) {
  Quota quota = WARREN_TRY(store_.usage().quota());
  if (!quota.bytes) return std::optional<std::uint64_t>();
  UsedSpace files = WARREN_TRY(store_.usage().used());
  std::uint64_t all = WARREN_TRY(count_bytes());
  std::uint64_t before = WARREN_TRY(size_of(key));
  std::uint64_t after = all - std::min(before, all) + key.size() + json.size();
  if (files.bytes + after <= *quota.bytes) return std::optional(after);
  return Error(Code::kNoSpace,
               fmt::format("quota: {} of {} would be used, by files and keys", format_size(files.bytes + after),
                           format_size(*quota.bytes)),
               "remove something, or raise the quota with `warren quota`");
}

Status KeyValue::write(std::string_view key, std::string_view json, std::optional<std::int64_t> expires_at_ms) {
  std::optional<std::uint64_t> bytes = WARREN_TRY(check_quota(key, json));
  bool had_expiry = WARREN_TRY(drop_if_expired(key));
  std::int64_t now = store_.clock().now().seconds;
  WARREN_TRY(upsert_.bind(1, key).bind(2, json).bind(3, now).run());
  bytes_ = bytes;
  if (expires_at_ms) {
    WARREN_TRY(set_expiry_.bind(1, key).bind(2, *expires_at_ms).bind(3, now).run());
    has_expiries_ = true;
    store_.expiry_changed();
  } else if (had_expiry) {
    WARREN_TRY(clear_expiry_.bind(1, key).run());
  }
  store_.journal()->note_key(key);
  return Ok{};
}

// Returns whether the key has an expiry; deletes the pair if it has expired, so that the next write
// creates a new pair.
Result<bool> KeyValue::drop_if_expired(std::string_view key) {
  std::optional<std::int64_t> expiry = WARREN_TRY(find_expiry_.bind(1, key).find_integer());
  if (!expiry) return false;
  WARREN_TRY(delete_expired_.bind(1, key).bind(2, now_ms()).run());
  if (store_.database().changes() > 0) {
    bytes_.reset();
    store_.audit().note("kv_expire", key, kExpiryDoor);
  }
  return true;
}

Result<bool> KeyValue::remove(std::string_view key) {
  return store_.audit().change_of_source("kv_delete", key, std::nullopt, [&] { return remove_pair(key); });
}

Result<bool> KeyValue::remove_pair(std::string_view key) {
  Transaction change = WARREN_TRY(Transaction::begin(store_.database(), Access::kWrite));
  bool had_expiry = WARREN_TRY(drop_if_expired(key));
  std::uint64_t size = WARREN_TRY(size_of(key));
  if (bytes_) *bytes_ -= std::min(*bytes_, size);
  WARREN_TRY(delete_.bind(1, key).run());
  bool was_there = store_.database().changes() > 0;
  if (had_expiry) WARREN_TRY(clear_expiry_.bind(1, key).run());
  if (was_there || had_expiry) store_.journal()->note_key(key);
  WARREN_TRY(change.commit());
  return was_there;
}

Result<std::vector<std::string>> KeyValue::keys(const KvListOptions& options) {
  std::vector<std::string> found;
  WARREN_TRY(store_.audit().note_read_of_source("kv_list", options.prefix));
  if (!store_.schema().has_kv) return found;
  KeyRange range(options);
  auto guard = store_.database().lock();
  Rows rows = range.bind_to(keys_).bind(3, std::uint64_t{options.limit}).bind(4, now_ms()).rows();
  while (WARREN_TRY(rows.next())) found.emplace_back(rows.text(0));
  return found;
}

Result<std::vector<KvEntry>> KeyValue::list(const KvListOptions& options) {
  std::vector<KvEntry> found;
  WARREN_TRY(store_.audit().note_read_of_source("kv_list", options.prefix));
  if (!store_.schema().has_kv) return found;
  KeyRange range(options);
  auto guard = store_.database().lock();
  Rows rows = range.bind_to(list_).bind(3, std::uint64_t{options.limit}).bind(4, now_ms()).rows();
  while (WARREN_TRY(rows.next())) {
    KvEntry& entry = found.emplace_back();
    entry.key = rows.text(0);
    entry.value = rows.text(1);
    entry.created_at = rows.integer(2);
    entry.updated_at = rows.integer(3);
    if (!rows.is_null(4)) entry.expires_at_ms = rows.integer(4);
  }
  return found;
}

Result<std::vector<std::string>> KeyValue::expired_keys(std::int64_t now) {
  std::vector<std::string> keys;
  Rows rows = expired_.bind(1, now).rows();
  while (WARREN_TRY(rows.next())) keys.emplace_back(rows.text(0));
  return keys;
}

Result<std::size_t> KeyValue::purge_expired() {
  Transaction change = WARREN_TRY(Transaction::begin(store_.database(), Access::kWrite));
  std::int64_t now = now_ms();
  std::vector<std::string> keys = WARREN_TRY(expired_keys(now));
  if (!keys.empty()) bytes_.reset();
  for (const std::string& key : keys) {
    WARREN_TRY(delete_.bind(1, key).run());
    store_.audit().note("kv_expire", key, kExpiryDoor);
  }
  {
    Rows rows = list_due_.bind(1, now).rows();
    while (WARREN_TRY(rows.next())) store_.journal()->note_key(rows.text(0));
  }
  WARREN_TRY(clear_expiries_.bind(1, now).run());  // including those whose pair another program removed
  WARREN_TRY(change.commit());
  return keys.size();
}

}  // namespace warren
