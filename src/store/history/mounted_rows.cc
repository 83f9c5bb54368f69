#include "store/history/mounted_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "crypto/digest.h"

namespace warren {
namespace {

constexpr Sql kMountedTable =
    "CREATE TABLE IF NOT EXISTS wr_mounted (mount TEXT NOT NULL, key TEXT NOT NULL, token TEXT, hash TEXT, "
    "expires_at_ms INTEGER, attributes TEXT, value BLOB, PRIMARY KEY (mount, key))";

// Rows are a stranger's: of another type, they are an empty text.
std::string text_of(const Rows& rows, int column) {
  return rows.type(column) == ColumnType::kText ? std::string(rows.text(column)) : std::string();
}

bool is_valid_mounted(const Rows& rows) {
  if (rows.type(0) != ColumnType::kText || rows.type(1) != ColumnType::kText) return false;
  if (!rows.text(0).starts_with('/')) return false;
  if (rows.text(1).empty()) return true;  // the mount is covered
  bool has_types = rows.type(2) == ColumnType::kText && (rows.is_null(3) || rows.type(3) == ColumnType::kInteger) &&
                   (rows.is_null(4) || rows.type(4) == ColumnType::kText) && rows.type(5) == ColumnType::kBlob;
  return has_types && rows.text(2) == sha256_hex(rows.blob(5));
}

}  // namespace

std::string digest_line(const MountedRow& row, std::string_view token) {
  return fmt::format("{}:{},{}:{},{}:{},", row.key.size(), row.key, row.hash.size(), row.hash, token.size(), token);
}

Result<bool> MountedRows::exists() {
  if (exists_) return true;
  Statement has = WARREN_TRY(
      store_.database().prepare("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'wr_mounted'"));
  auto found = WARREN_TRY(has.find_integer());
  exists_ = found.has_value();
  return exists_;
}

Status MountedRows::make_table() {
  if (WARREN_TRY(exists())) return Ok{};
  WARREN_TRY(store_.database().execute(kMountedTable));
  exists_ = true;
  return Ok{};
}

Status MountedRows::prepare_changes() {
  if (is_prepared_) return Ok{};
  Database& database = store_.database();
  put_ = WARREN_TRY(
      database.prepare("INSERT OR REPLACE INTO wr_mounted (mount, key, token, hash, expires_at_ms, attributes, value) "
                       "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
  set_token_ =
      WARREN_TRY(database.prepare("UPDATE wr_mounted SET token = ?1 WHERE mount = ?2 AND key = ?3 AND hash = ?4"));
  remove_ = WARREN_TRY(database.prepare("DELETE FROM wr_mounted WHERE mount = ? AND key = ?"));
  is_prepared_ = true;
  return Ok{};
}

Status MountedRows::note_change() {
  if (is_noted_) return Ok{};
  is_noted_ = true;
  return store_.database().execute(
      "INSERT INTO wr_meta (key, value) VALUES ('mounted_changed', 1) ON CONFLICT (key) DO UPDATE SET value = 1");
}

Result<bool> MountedRows::has_changes() {
  Statement query = WARREN_TRY(store_.database().prepare("SELECT 1 FROM wr_meta WHERE key = 'mounted_changed'"));
  auto found = WARREN_TRY(query.find_integer());
  return found.has_value();
}

Status MountedRows::forget_changes() {
  is_noted_ = false;
  return store_.database().execute("DELETE FROM wr_meta WHERE key = 'mounted_changed'");
}

Result<std::vector<std::string>> MountedRows::list_covered() {
  std::vector<std::string> mounts;
  if (!WARREN_TRY(exists())) return mounts;
  Statement query = WARREN_TRY(store_.database().prepare("SELECT mount FROM wr_mounted WHERE key = '' ORDER BY mount"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) mounts.emplace_back(rows.text(0));
  return mounts;
}

Status MountedRows::cover(const std::vector<CoveredMount>& mounts) {
  for (const CoveredMount& mount : mounts) {
    std::string now = WARREN_TRY(digest(mount.path));
    if (now == mount.digest) continue;
    return Error(Code::kConflict, fmt::format("another process copied {} meanwhile", quote(mount.path)),
                 "try again; several processes take checkpoints of this agent at once");
  }
  std::vector<std::string> before = WARREN_TRY(list_covered());
  auto is_wanted = [&](const std::string& path) {
    return std::ranges::any_of(mounts, [&](const CoveredMount& one) { return one.path == path; });
  };
  for (const std::string& path : before) {
    if (!is_wanted(path)) WARREN_TRY(remove(path, ""));
  }
  for (const CoveredMount& mount : mounts) {
    if (!std::ranges::count(before, mount.path)) WARREN_TRY(put(mount.path, {}, Bytes(), ""));
  }
  return Ok{};
}

Result<std::vector<MountedRow>> MountedRows::list(std::string_view mount) {
  std::vector<MountedRow> all;
  if (!WARREN_TRY(exists())) return all;
  Statement query = WARREN_TRY(store_.database().prepare(
      "SELECT key, hash, octet_length(value), expires_at_ms, attributes FROM wr_mounted WHERE "
      "mount = ? AND key > '' ORDER BY key"));
  Rows rows = query.bind(1, mount).rows();
  while (WARREN_TRY(rows.next())) {
    MountedRow row{.key = text_of(rows, 0),
                   .hash = text_of(rows, 1),
                   .size = static_cast<std::uint64_t>(std::max<std::int64_t>(rows.integer(2), 0)),
                   .expires_at_ms = {},
                   .attributes = text_of(rows, 4)};
    if (rows.type(3) == ColumnType::kInteger) row.expires_at_ms = rows.integer(3);
    all.push_back(std::move(row));
  }
  return all;
}

Result<std::optional<std::string>> MountedRows::find_value(std::string_view mount, std::string_view key) {
  if (!WARREN_TRY(exists())) return std::optional<std::string>();
  Statement query =
      WARREN_TRY(store_.database().prepare("SELECT value, hash FROM wr_mounted WHERE mount = ? AND key = ?"));
  Rows rows = query.bind(1, mount).bind(2, key).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  Bytes value = rows.blob(0);
  if (text_of(rows, 1) != sha256_hex(value)) {
    return Error(Code::kCorrupt, fmt::format("the copy of {} in {} is damaged", quote(key), quote(mount)),
                 "`warren fsck` shows what else is");
  }
  return std::optional(std::string(as_text(value)));
}

Result<std::map<std::string, std::string>> MountedRows::list_tokens(std::string_view mount) {
  std::map<std::string, std::string> tokens;
  if (!WARREN_TRY(exists())) return tokens;
  Statement query = WARREN_TRY(store_.database().prepare(
      "SELECT key, token FROM wr_mounted WHERE mount = ? AND key > '' AND typeof(token) = 'text'"));
  Rows rows = query.bind(1, mount).rows();
  while (WARREN_TRY(rows.next())) tokens.emplace(rows.text(0), rows.text(1));
  return tokens;
}

Result<std::string> MountedRows::digest(std::string_view mount) {
  std::vector<MountedRow> rows = WARREN_TRY(list(mount));
  std::map<std::string, std::string> tokens = WARREN_TRY(list_tokens(mount));
  Sha256 all;
  for (const MountedRow& row : rows) all.update(as_bytes(digest_line(row, tokens[row.key])));
  return hex_of(all.finish());
}

Status MountedRows::put(std::string_view mount, const MountedRow& row, Bytes value, std::string_view token) {
  WARREN_TRY(make_table());
  WARREN_TRY(prepare_changes());
  put_.bind(1, mount).bind(2, std::string_view(row.key)).bind(3, token).bind(4, std::string_view(row.hash));
  put_.bind(5, row.expires_at_ms).bind(6, std::string_view(row.attributes)).bind(7, value);
  if (token.empty()) put_.bind_null(3);
  if (row.attributes.empty()) put_.bind_null(6);
  if (row.key.empty()) put_.bind_null(4).bind_null(7);
  WARREN_TRY(put_.run());
  return note_change();
}

Status MountedRows::set_token(std::string_view mount, const MountedRow& row, std::string_view token) {
  if (!WARREN_TRY(exists())) return Ok{};
  WARREN_TRY(prepare_changes());
  set_token_.bind(1, token).bind(2, mount).bind(3, std::string_view(row.key)).bind(4, std::string_view(row.hash));
  if (token.empty()) set_token_.bind_null(1);
  return set_token_.run();
}

Status MountedRows::remove(std::string_view mount, std::string_view key) {
  if (!WARREN_TRY(exists())) return Ok{};
  WARREN_TRY(prepare_changes());
  WARREN_TRY(remove_.bind(1, mount).bind(2, key).run());
  return note_change();
}

Result<std::int64_t> count_invalid_mounted(Database& database, MountedTable table) {
  Statement query = WARREN_TRY(
      table == MountedTable::kLive
          ? database.prepare("SELECT mount, key, hash, expires_at_ms, attributes, value FROM wr_mounted")
          : database.prepare("SELECT mount, key, hash, expires_at_ms, attributes, value FROM wr_past_mounted"));
  std::int64_t count = 0;
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) count += is_valid_mounted(rows) ? 0 : 1;
  return count;
}

}  // namespace warren
