#include "store/schema.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/limits.h"
#include "base/path.h"
#include "store/table_names.h"

namespace warren {
namespace {

constexpr Sql kSpecTables = R"sql(
CREATE TABLE IF NOT EXISTS fs_config (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS fs_inode (
  ino INTEGER PRIMARY KEY AUTOINCREMENT,
  mode INTEGER NOT NULL,
  nlink INTEGER NOT NULL DEFAULT 0,
  uid INTEGER NOT NULL DEFAULT 0,
  gid INTEGER NOT NULL DEFAULT 0,
  size INTEGER NOT NULL DEFAULT 0,
  atime INTEGER NOT NULL,
  mtime INTEGER NOT NULL,
  ctime INTEGER NOT NULL,
  rdev INTEGER NOT NULL DEFAULT 0,
  atime_nsec INTEGER NOT NULL DEFAULT 0,
  mtime_nsec INTEGER NOT NULL DEFAULT 0,
  ctime_nsec INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS fs_dentry (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  parent_ino INTEGER NOT NULL,
  ino INTEGER NOT NULL,
  UNIQUE(parent_ino, name)
);
CREATE INDEX IF NOT EXISTS idx_fs_dentry_parent ON fs_dentry(parent_ino, name);
CREATE TABLE IF NOT EXISTS fs_data (
  ino INTEGER NOT NULL,
  chunk_index INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (ino, chunk_index)
);
CREATE TABLE IF NOT EXISTS fs_symlink (
  ino INTEGER PRIMARY KEY,
  target TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS kv_store (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  created_at INTEGER DEFAULT (unixepoch()),
  updated_at INTEGER DEFAULT (unixepoch())
);
CREATE INDEX IF NOT EXISTS idx_kv_store_created_at ON kv_store(created_at);
CREATE TABLE IF NOT EXISTS tool_calls (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  parameters TEXT,
  result TEXT,
  error TEXT,
  status TEXT NOT NULL DEFAULT 'pending',
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  duration_ms INTEGER
);
CREATE INDEX IF NOT EXISTS idx_tool_calls_name ON tool_calls(name);
CREATE INDEX IF NOT EXISTS idx_tool_calls_started_at ON tool_calls(started_at);
)sql";

// The columns are explained in docs/format.md.
constexpr Sql kOwnTables = R"sql(
CREATE TABLE IF NOT EXISTS wr_meta (
  key TEXT PRIMARY KEY,
  value NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wr_journal (
  seq INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  origin INTEGER NOT NULL,
  changes BLOB NOT NULL,
  commit_number INTEGER,
  door TEXT,
  space TEXT
);
CREATE TABLE IF NOT EXISTS wr_xattr (
  ino INTEGER NOT NULL,
  name TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (ino, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wr_orphan (
  ino INTEGER PRIMARY KEY,
  boot TEXT NOT NULL,
  pid_namespace INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  started INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS wr_kv_expiry (
  key TEXT PRIMARY KEY,
  expires_at_ms INTEGER NOT NULL,
  set_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wr_expiry (
  ino INTEGER PRIMARY KEY,
  expires_at_ms INTEGER NOT NULL,
  parent_ino INTEGER,
  name TEXT
);
CREATE INDEX IF NOT EXISTS idx_wr_expiry ON wr_expiry(expires_at_ms);
CREATE INDEX IF NOT EXISTS idx_wr_kv_expiry ON wr_kv_expiry(expires_at_ms);
CREATE TABLE IF NOT EXISTS wr_tool_call (
  id INTEGER PRIMARY KEY,
  started_ns INTEGER,
  duration_ns INTEGER,
  session TEXT,
  parent_id INTEGER,
  cost_usd REAL,
  tokens_in INTEGER,
  tokens_out INTEGER
);
INSERT OR IGNORE INTO wr_meta (key, value) VALUES ('format', 1);
)sql";

constexpr std::array<std::string_view, 7> kOwnTableNames{"wr_meta",      "wr_journal", "wr_xattr",    "wr_orphan",
                                                         "wr_kv_expiry", "wr_expiry",  "wr_tool_call"};

// The wr_meta.format that this program writes. A higher one is from a newer Warren.
constexpr std::int64_t kOwnFormat = 1;

Result<std::uint32_t> chunk_bytes_of(Database& database) {
  Statement query = WARREN_TRY(database.prepare("SELECT value FROM fs_config WHERE key='chunk_size'"));
  Rows rows = query.rows();
  if (!WARREN_TRY(rows.next())) return limits::kChunkBytesDefault;
  std::string_view text = rows.text(0);
  std::optional<std::uint32_t> bytes = parse_chunk_bytes(text);
  if (!bytes)
    return Error(Code::kCorrupt, fmt::format("fs_config has chunk_size {}, which is not a valid size", quote(text)));
  return *bytes;
}

Status check_own_format(Database& database) {
  Statement query = WARREN_TRY(database.prepare("SELECT value FROM wr_meta WHERE key='format'"));
  std::optional<std::int64_t> format = WARREN_TRY(query.find_integer());
  if (format && *format > kOwnFormat) {
    return Error(Code::kUnsupported, fmt::format("the file was written by a newer Warren (format {})", *format),
                 "update Warren");
  }
  return Ok{};
}

}  // namespace

std::string_view name_of(SchemaVersion version) {
  switch (version) {
    case SchemaVersion::k0_0: return "0.0";
    case SchemaVersion::k0_2: return "0.2";
    case SchemaVersion::k0_4: return "0.4";
  }
  return "?";
}

std::optional<std::uint32_t> parse_chunk_bytes(std::string_view text) {
  std::optional<std::uint32_t> bytes = parse_number<std::uint32_t>(text);
  if (!bytes || *bytes == 0 || *bytes > limits::kStoredChunkBytesMax) return std::nullopt;
  return bytes;
}

Result<Schema> inspect_schema(Database& database) {
  TableNames names = WARREN_TRY(TableNames::read(database));
  if (!names.has("fs_inode") || !names.has("fs_dentry")) {
    return Error(Code::kCorrupt, "not an agent file: it has no fs_inode and fs_dentry tables",
                 "`warren init` makes one");
  }
  bool has_nanoseconds =
      names.has("fs_inode.atime_nsec") && names.has("fs_inode.mtime_nsec") && names.has("fs_inode.ctime_nsec");
  bool has_nlink = names.has("fs_inode.nlink");
  Schema schema;
  schema.version = has_nanoseconds && has_nlink && names.has("fs_inode.rdev") ? SchemaVersion::k0_4
                   : has_nlink                                                ? SchemaVersion::k0_2
                                                                              : SchemaVersion::k0_0;
  schema.has_chunks = names.has("fs_data.chunk_index");
  schema.has_symlinks = names.has("fs_symlink");
  schema.has_kv = names.has("kv_store");
  schema.has_tool_calls = names.has("tool_calls");
  schema.tool_calls_have_status = !schema.has_tool_calls || names.has("tool_calls.status");
  schema.has_extensions = names.has("wr_meta");
  schema.has_expiries = names.has("wr_expiry");
  schema.journal_has_authors = names.has("wr_journal.door") && names.has("wr_journal.space");
  schema.has_all_extensions =
      names.has("wr_journal.commit_number") && schema.journal_has_authors &&
      std::all_of(kOwnTableNames.begin(), kOwnTableNames.end(), [&](std::string_view name) { return names.has(name); });
  if (names.has("fs_config")) schema.chunk_bytes = WARREN_TRY(chunk_bytes_of(database));
  if (schema.has_extensions) WARREN_TRY(check_own_format(database));
  return schema;
}

Status create_schema(Database& database, std::uint32_t chunk_bytes, Timestamp now) {
  WARREN_TRY(database.execute(kSpecTables));
  WARREN_TRY(database.execute(kOwnTables));
  Statement config = WARREN_TRY(
      database.prepare("INSERT INTO fs_config (key, value) VALUES ('chunk_size', ?), ('schema_version', '0.4')"));
  std::string chunk_text = std::to_string(chunk_bytes);
  WARREN_TRY(config.bind(1, chunk_text).run());
  Statement root = WARREN_TRY(database.prepare(
      "INSERT INTO fs_inode (ino, mode, nlink, atime, mtime, ctime, atime_nsec, mtime_nsec, ctime_nsec) "
      "VALUES (1, 16877, 1, ?1, ?1, ?1, ?2, ?2, ?2)"));
  return root.bind(1, now.seconds).bind(2, now.nanoseconds).run();
}

Status complete_schema(Database& database) {
  WARREN_TRY(database.execute(kSpecTables));
  WARREN_TRY(database.execute(kOwnTables));
  TableNames names = WARREN_TRY(TableNames::read(database));
  // A file of an older Warren lacks some columns.
  if (!names.has("wr_journal.commit_number")) {
    WARREN_TRY(database.execute("ALTER TABLE wr_journal ADD COLUMN commit_number INTEGER"));
  }
  if (!names.has("wr_journal.door")) WARREN_TRY(database.execute("ALTER TABLE wr_journal ADD COLUMN door TEXT"));
  if (!names.has("wr_journal.space")) WARREN_TRY(database.execute("ALTER TABLE wr_journal ADD COLUMN space TEXT"));
  return database.execute(
      "INSERT OR IGNORE INTO fs_config (key, value) VALUES ('chunk_size', '4096'), "
      "('schema_version', '0.4')");
}

}  // namespace warren
