#include "store/tables/usage.h"

#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/format_size.h"
#include "base/path.h"
#include "db/transaction.h"

namespace warren {
namespace {

// SQLite integers are signed: neither a quota nor a count may exceed this.
constexpr std::uint64_t kCountMax = std::numeric_limits<std::int64_t>::max();

std::uint64_t add(std::uint64_t count, std::int64_t change) {
  if (change < 0) {
    std::uint64_t less = 0 - static_cast<std::uint64_t>(change);
    return less > count ? 0 : count - less;
  }
  auto more = static_cast<std::uint64_t>(change);
  return more > kCountMax - count ? kCountMax : count + more;
}

std::string count_text(std::uint64_t count) { return fmt::format("{} inodes", count); }

Status check(std::string (*text)(std::uint64_t), const std::optional<std::uint64_t>& quota, std::uint64_t used,
             std::int64_t change) {
  if (!quota || change <= 0) return Ok{};
  auto more = static_cast<std::uint64_t>(change);
  if (used <= *quota && more <= *quota - used) return Ok{};
  return Error(Code::kNoSpace,
               fmt::format("quota: {} of {} used, {} more needed", text(used), text(*quota), text(more)),
               "remove something, or raise the quota with `warren quota`");
}

bool is_unlimited(const Quota& quota) { return !quota.bytes && !quota.inodes; }

}  // namespace

Result<std::unique_ptr<Usage>> Usage::open(Database& database, bool has_extensions) {
  std::unique_ptr<Usage> usage(new Usage(database));
  usage->has_extensions_ = has_extensions;
  if (!has_extensions) return usage;
  auto guard = database.lock();
  WARREN_TRY(usage->prepare());
  Quota quota = WARREN_TRY(usage->quota());
  if (is_unlimited(quota) || database.is_read_only()) return usage;
  Transaction change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(usage->refresh());  // values read before the transaction may be out of date
  if (!is_unlimited(usage->quota_)) {
    WARREN_TRY(usage->recount().within("count used space"));
    WARREN_TRY(usage->write());
  }
  WARREN_TRY(change.commit());
  return usage;
}

Status Usage::prepare() {
  get_ = WARREN_TRY(database_.prepare("SELECT value FROM wr_meta WHERE key = ?"));
  put_ = WARREN_TRY(database_.prepare(
      "INSERT INTO wr_meta (key, value) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value"));
  remove_ = WARREN_TRY(database_.prepare("DELETE FROM wr_meta WHERE key = ?"));
  return Ok{};
}

Status Usage::charge(std::int64_t bytes, std::int64_t inodes) {
  if (!has_extensions_) return Ok{};
  WARREN_TRY(refresh());
  if (is_unlimited(quota_)) return Ok{};
  WARREN_TRY(check(format_size, quota_.bytes, used_.bytes, bytes));
  WARREN_TRY(check(count_text, quota_.inodes, used_.inodes, inodes));
  UsedSpace now{.bytes = add(used_.bytes, bytes), .inodes = add(used_.inodes, inodes)};
  if (now != used_) dirty_ = true;
  used_ = now;
  return Ok{};
}

Status Usage::write() {
  // Charges of a transaction that was dropped before it changed a row are still counted here: do not write them.
  if (!dirty_ || transaction_ != database_.transaction_number()) return Ok{};
  WARREN_TRY(put_count("used_bytes", used_.bytes));
  WARREN_TRY(put_count("used_inodes", used_.inodes));
  dirty_ = false;
  return Ok{};
}

Result<Quota> Usage::quota() {
  if (!has_extensions_) return Quota{};
  auto guard = database_.lock();
  Quota quota;
  quota.bytes = WARREN_TRY(find_count("quota_bytes"));
  quota.inodes = WARREN_TRY(find_count("quota_inodes"));
  return quota;
}

Status Usage::set_quota(const Quota& quota) {
  if (quota.bytes.value_or(0) > kCountMax || quota.inodes.value_or(0) > kCountMax) {
    return Error(Code::kInvalid, fmt::format("a quota can be at most {}", kCountMax));
  }
  Transaction change = WARREN_TRY(Transaction::begin(database_, Access::kWrite));
  if (!has_extensions_) return Error(Code::kUnsupported, "the agent file has no place for a quota");
  std::optional<std::uint64_t> bytes;
  std::optional<std::uint64_t> inodes;
  if (!is_unlimited(quota)) {
    UsedSpace used = WARREN_TRY(measure());
    bytes = used.bytes;
    inodes = used.inodes;
  }
  forget();  // read the rows again next time, whether this succeeds or not
  WARREN_TRY(put_count("quota_bytes", quota.bytes));
  WARREN_TRY(put_count("quota_inodes", quota.inodes));
  WARREN_TRY(put_count("used_bytes", bytes));
  WARREN_TRY(put_count("used_inodes", inodes));
  return change.commit();
}

Result<UsedSpace> Usage::used() {
  if (!has_extensions_) return UsedSpace{};
  auto guard = database_.lock();
  auto bytes = WARREN_TRY(find_count("used_bytes"));
  auto inodes = WARREN_TRY(find_count("used_inodes"));
  return UsedSpace{.bytes = bytes.value_or(0), .inodes = inodes.value_or(0)};
}

Result<UsedSpace> Usage::measure() {
  // Added here and not by SUM, which fails on overflow: the sizes of sparse files can add up to more than 2^63 bytes.
  auto guard = database_.lock();
  Statement nodes = WARREN_TRY(database_.prepare("SELECT size, (mode & 61440) = 16384 FROM fs_inode"));
  UsedSpace used;
  Rows rows = nodes.rows();
  while (WARREN_TRY(rows.next())) {
    used.inodes += 1;
    bool is_directory = rows.integer(1) != 0;
    if (!is_directory && rows.integer(0) > 0) used.bytes = add(used.bytes, rows.integer(0));
  }
  return used;
}

Status Usage::refresh() {
  std::uint64_t transaction = database_.transaction_number();
  if (!stale_ && transaction == transaction_) return Ok{};
  std::uint64_t epoch = database_.foreign_epoch();
  if (stale_ || dirty_ || epoch != foreign_epoch_) WARREN_TRY(load());
  transaction_ = transaction;
  foreign_epoch_ = epoch;
  stale_ = false;
  return Ok{};
}

Status Usage::load() {
  dirty_ = false;
  quota_ = WARREN_TRY(quota());
  if (is_unlimited(quota_)) return Ok{};
  std::optional<std::uint64_t> bytes = WARREN_TRY(find_count("used_bytes"));
  std::optional<std::uint64_t> inodes = WARREN_TRY(find_count("used_inodes"));
  used_ = {.bytes = bytes.value_or(0), .inodes = inodes.value_or(0)};
  return bytes && inodes ? Status(Ok{}) : recount();
}

Status Usage::recount() {
  UsedSpace counted = WARREN_TRY(measure());
  if (counted != used_) dirty_ = true;
  used_ = counted;
  return Ok{};
}

Result<std::optional<std::uint64_t>> Usage::find_count(std::string_view key) {
  Rows rows = get_.bind(1, key).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::uint64_t>();
  if (rows.type(0) != ColumnType::kInteger || rows.integer(0) < 0) {
    return Error(Code::kCorrupt,
                 fmt::format("wr_meta has {} {}, which is not a valid count", key, quote(rows.text(0))));
  }
  return std::optional(static_cast<std::uint64_t>(rows.integer(0)));
}

Status Usage::put_count(std::string_view key, const std::optional<std::uint64_t>& value) {
  if (!value) return remove_.bind(1, key).run();
  return put_.bind(1, key).bind(2, *value).run();
}

}  // namespace warren
