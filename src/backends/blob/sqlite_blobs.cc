#include "backends/blob/sqlite_blobs.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "base/path.h"
#include "db/transaction.h"

namespace warren {
namespace {

// A put is a new row, whose number is the version: AUTOINCREMENT never gives a number twice. The content is the last
// column, so that the others are read without it.
constexpr Sql kBlobTable =
    "CREATE TABLE IF NOT EXISTS wr_blobs ("
    "  version INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  key BLOB NOT NULL UNIQUE,"
    "  size INTEGER NOT NULL,"
    "  modified_us INTEGER NOT NULL,"
    "  expires_us INTEGER,"
    "  content BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS wr_blobs_expiry ON wr_blobs (expires_us) WHERE expires_us IS NOT NULL;";

std::int64_t microseconds_of(Timestamp at) { return at.seconds * 1'000'000 + at.nanoseconds / 1000; }

Timestamp timestamp_of(std::int64_t us) {
  std::int64_t seconds = us / 1'000'000 - (us % 1'000'000 < 0 ? 1 : 0);
  return {.seconds = seconds, .nanoseconds = static_cast<std::int32_t>((us - seconds * 1'000'000) * 1000)};
}

// Of columns in the order: version, key, size, modified_us, expires_us.
BlobInfo info_of(const Rows& rows) {
  BlobInfo info{.key = std::string(as_text(rows.blob(1))),
                .size = static_cast<std::uint64_t>(rows.integer(2)),
                .version = std::to_string(rows.integer(0)),
                .modified = timestamp_of(rows.integer(3)),
                .expires = {}};
  if (!rows.is_null(4)) info.expires = timestamp_of(rows.integer(4));
  return info;
}

// The first key after all that begin with the prefix; unset if there is none.
std::optional<std::string> end_of_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  ++prefix.back();
  return prefix;
}

// Another process may make the file at the same time.
Result<std::unique_ptr<Database>> open_or_make(const std::string& path) {
  Result<std::unique_ptr<Database>> made = Database::open(path, {.mode = OpenMode::kCreate});
  if (made.ok() || made.error().code() != Code::kExists) return made;
  return Database::open(path, {.mode = OpenMode::kReadWrite});
}

Status make_blob_table(Database& db) {
  auto transaction = WARREN_TRY(Transaction::begin(db, Access::kWrite));
  Statement others = WARREN_TRY(
      db.prepare("SELECT count(*) FILTER (WHERE name = 'wr_blobs'), count(*) FROM sqlite_master WHERE type = 'table'"));
  {
    Rows rows = others.rows();
    WARREN_TRY(rows.next());
    if (rows.integer(0) > 0) return Ok{};
    if (rows.integer(1) > 0) {
      return Error(Code::kInvalid, fmt::format("{} is a database of something else", quote(db.path())),
                   "name a file of its own, which is made if it does not exist");
    }
  }
  WARREN_TRY(db.execute(kBlobTable));
  return transaction.commit();
}

}  // namespace

Result<std::unique_ptr<SqliteBlobs>> SqliteBlobs::open(const std::string& path, Clock& clock) {
  auto db = WARREN_TRY(open_or_make(path).within(fmt::format("open {}", quote(path))));
  WARREN_TRY(make_blob_table(*db));
  std::unique_ptr<SqliteBlobs> store(new SqliteBlobs(std::move(db), clock));
  WARREN_TRY(store->prepare());
  return store;
}

Status SqliteBlobs::prepare() {
  find_ =
      WARREN_TRY(db_->prepare("SELECT version, key, size, modified_us, expires_us FROM wr_blobs WHERE key = ?1 AND "
                              "(expires_us IS NULL OR expires_us > ?2)"));
  read_ = WARREN_TRY(db_->prepare("SELECT content FROM wr_blobs WHERE version = ?1"));
  range_ = WARREN_TRY(db_->prepare("SELECT substr(content, ?2, ?3) FROM wr_blobs WHERE version = ?1"));
  insert_ = WARREN_TRY(db_->prepare(
      "INSERT OR REPLACE INTO wr_blobs (key, size, modified_us, expires_us, content) VALUES (?1, ?2, ?3, ?4, ?5)"));
  delete_ = WARREN_TRY(db_->prepare("DELETE FROM wr_blobs WHERE key = ?1"));
  list_ = WARREN_TRY(
      db_->prepare("SELECT version, key, size, modified_us, expires_us FROM wr_blobs WHERE key > ?1 AND key >= ?2 AND "
                   "(?4 IS NULL OR key < ?4) AND (expires_us IS NULL OR expires_us > ?3) ORDER BY key LIMIT ?5"));
  collect_ = WARREN_TRY(db_->prepare(
      "DELETE FROM wr_blobs WHERE version IN (SELECT version FROM wr_blobs WHERE expires_us <= ?1 LIMIT 100)"));
  return Ok{};
}

Result<std::optional<BlobInfo>> SqliteBlobs::find_row(std::string_view key) {
  Rows rows = find_.bind(1, as_bytes(key)).bind(2, clock_.now_us()).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<BlobInfo>();
  return std::optional(info_of(rows));
}

Result<std::optional<BlobInfo>> SqliteBlobs::find(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  auto transaction = WARREN_TRY(Transaction::begin(*db_, Access::kRead));
  return find_row(key);
}

Result<std::optional<Blob>> SqliteBlobs::get(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  auto transaction = WARREN_TRY(Transaction::begin(*db_, Access::kRead));
  std::optional<BlobInfo> info = WARREN_TRY(find_row(key));
  if (!info) return std::optional<Blob>();
  Rows rows = read_.bind(1, static_cast<std::int64_t>(std::stoll(info->version))).rows();
  WARREN_TRY(rows.next());
  return std::optional(Blob{.info = *std::move(info), .content = std::string(as_text(rows.blob(0)))});
}

Result<std::optional<Blob>> SqliteBlobs::get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  WARREN_TRY(check_blob_key(key));
  auto transaction = WARREN_TRY(Transaction::begin(*db_, Access::kRead));
  std::optional<BlobInfo> info = WARREN_TRY(find_row(key));
  if (!info) return std::optional<Blob>();
  Blob blob{.info = *std::move(info), .content = {}};
  if (offset >= blob.info.size || length == 0) return std::optional(std::move(blob));
  std::uint64_t count = std::min(length, blob.info.size - offset);
  Rows rows = range_.bind(1, static_cast<std::int64_t>(std::stoll(blob.info.version)))
                  .bind(2, offset + 1)
                  .bind(3, count)
                  .rows();
  WARREN_TRY(rows.next());
  blob.content = as_text(rows.blob(0));
  return std::optional(std::move(blob));
}

Result<BlobInfo> SqliteBlobs::put_row(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_blob_put(abilities(), key, content.size(), options));
  if (options.if_absent || options.if_match) {
    std::optional<BlobInfo> current = WARREN_TRY(find_row(key));
    WARREN_TRY(check_blob_condition(key, options, current ? &current->version : nullptr));
  }
  Timestamp now = clock_.now();
  BlobInfo info{.key = std::string(key),
                .size = content.size(),
                .version = {},
                .modified = timestamp_of(microseconds_of(now)),
                .expires = expiry_of(options, now)};
  std::optional<std::int64_t> expires_us;
  // Microseconds reach 290,000 years: what lives longer does not expire.
  if (info.expires && info.expires->seconds > std::numeric_limits<std::int64_t>::max() / 2'000'000)
    info.expires.reset();
  if (info.expires) expires_us = microseconds_of(*info.expires);
  WARREN_TRY(insert_.bind(1, as_bytes(key))
                 .bind(2, content.size())
                 .bind(3, microseconds_of(now))
                 .bind(4, expires_us)
                 .bind(5, content)
                 .run());
  info.version = std::to_string(db_->last_insert_id());
  return info;
}

Result<bool> SqliteBlobs::remove_row(std::string_view key, const PutOptions& options) {
  std::optional<BlobInfo> current = WARREN_TRY(find_row(key));
  WARREN_TRY(check_blob_condition(key, options, current ? &current->version : nullptr));
  WARREN_TRY(delete_.bind(1, as_bytes(key)).run());
  return current.has_value();
}

Result<BlobInfo> SqliteBlobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_blob_put(abilities(), key, content.size(), options));
  auto transaction = WARREN_TRY(Transaction::begin(*db_, Access::kWrite));
  WARREN_TRY(collect_.bind(1, clock_.now_us()).run());
  BlobInfo info = WARREN_TRY(put_row(key, content, options));
  WARREN_TRY(transaction.commit());
  return info;
}

Result<bool> SqliteBlobs::remove(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  auto transaction = WARREN_TRY(Transaction::begin(*db_, Access::kWrite));
  bool was_there = WARREN_TRY(remove_row(key, {}));
  WARREN_TRY(transaction.commit());
  return was_there;
}

Result<BlobPage> SqliteBlobs::list(const ListOptions& options) {
  auto transaction = WARREN_TRY(Transaction::begin(*db_, Access::kRead));
  return list_in_pages(
      options,
      [&](const std::string& prefix, const std::string& after, std::size_t limit) -> Result<std::vector<BlobInfo>> {
        std::vector<BlobInfo> found;
        std::optional<std::string> end = end_of_prefix(prefix);
        std::optional<Bytes> end_bytes;
        if (end) end_bytes = as_bytes(*end);
        Rows rows = list_.bind(1, as_bytes(after))
                        .bind(2, as_bytes(prefix))
                        .bind(3, clock_.now_us())
                        .bind(4, end_bytes)
                        .bind(5, limit)
                        .rows();
        while (WARREN_TRY(rows.next())) found.push_back(info_of(rows));
        return found;
      });
}

Status SqliteBlobs::apply(std::span<const BlobChange> changes) {
  auto transaction = WARREN_TRY(Transaction::begin(*db_, Access::kWrite));
  WARREN_TRY(collect_.bind(1, clock_.now_us()).run());
  for (const BlobChange& change : changes) {
    WARREN_TRY(check_blob_key(change.key));
    if (change.content) WARREN_TRY(put_row(change.key, *change.content, change.options));
    else WARREN_TRY(remove_row(change.key, change.options));
  }
  return transaction.commit();
}

}  // namespace warren
