#include "store/overlay/overlay_schema.h"

#include "db/database.h"
#include "db/transaction.h"

namespace warren {
namespace {

constexpr Sql kTables = R"sql(
CREATE TABLE IF NOT EXISTS fs_whiteout (
  path TEXT PRIMARY KEY,
  parent_path TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS fs_origin (
  delta_ino INTEGER PRIMARY KEY,
  base_ino INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS fs_overlay_config (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS wr_origin (
  delta_ino INTEGER PRIMARY KEY,
  base_path TEXT NOT NULL,
  hidden_names INTEGER NOT NULL,
  base_ino INTEGER,
  mode INTEGER,
  nlink INTEGER,
  uid INTEGER,
  gid INTEGER,
  size INTEGER,
  mtime INTEGER,
  mtime_nsec INTEGER,
  ctime INTEGER,
  ctime_nsec INTEGER,
  rdev INTEGER,
  generation INTEGER
);
CREATE TABLE IF NOT EXISTS wr_whiteout (
  path TEXT PRIMARY KEY,
  base_ino INTEGER NOT NULL,
  mode INTEGER NOT NULL,
  nlink INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  gid INTEGER NOT NULL,
  size INTEGER NOT NULL,
  mtime INTEGER NOT NULL,
  mtime_nsec INTEGER NOT NULL,
  ctime INTEGER NOT NULL,
  ctime_nsec INTEGER NOT NULL,
  rdev INTEGER NOT NULL,
  base_path TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS wr_lost_link (
  base_path TEXT PRIMARY KEY,
  base_ino INTEGER NOT NULL,
  at INTEGER NOT NULL,
  at_nsec INTEGER NOT NULL,
  generation INTEGER
);
CREATE TABLE IF NOT EXISTS wr_base_range (
  delta_ino INTEGER NOT NULL,
  first_byte INTEGER NOT NULL,
  end_byte INTEGER NOT NULL,
  PRIMARY KEY (delta_ino, first_byte)
);
CREATE TABLE IF NOT EXISTS wr_ancestor (
  delta_ino INTEGER PRIMARY KEY,
  content BLOB NOT NULL
);
)sql";

Status add_generation(Database& database, Sql columns_of_table, Sql add) {
  Statement columns = WARREN_TRY(database.prepare(columns_of_table));
  bool is_there = WARREN_TRY(columns.find_integer())
  .value_or(0) > 0;
  return is_there ? Status(Ok{}) : database.execute(add);
}

// Older programs create fs_whiteout without parent_path; such a table is not changed.
Status make_tables(Database& database) {
  WARREN_TRY(database.execute(kTables));
  WARREN_TRY(add_generation(database, "SELECT count(*) FROM pragma_table_info('wr_origin') WHERE name='generation'",
                            "ALTER TABLE wr_origin ADD COLUMN generation INTEGER"));
  WARREN_TRY(add_generation(database, "SELECT count(*) FROM pragma_table_info('wr_lost_link') WHERE name='generation'",
                            "ALTER TABLE wr_lost_link ADD COLUMN generation INTEGER"));
  Statement columns =
      WARREN_TRY(database.prepare("SELECT count(*) FROM pragma_table_info('fs_whiteout') WHERE name='parent_path'"));
  if (WARREN_TRY(columns.find_integer()).value_or(0) == 0) return Ok{};
  return database.execute("CREATE INDEX IF NOT EXISTS idx_fs_whiteout_parent ON fs_whiteout(parent_path)");
}

}  // namespace

Status make_overlay(Store& store, std::string_view base_path) {
  Database& database = store.database();
  auto change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(make_tables(database));
  Statement set =
      WARREN_TRY(database.prepare("INSERT OR REPLACE INTO fs_overlay_config (key, value) VALUES ('base_path', ?)"));
  WARREN_TRY(set.bind(1, base_path).run());
  return change.commit();
}

Status complete_overlay(Store& store) {
  Database& database = store.database();
  auto change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(make_tables(database));
  return change.commit();
}

Result<std::optional<std::string>> find_overlay_base(Store& store) {
  Database& database = store.database();
  auto view = WARREN_TRY(Transaction::begin(database, Access::kRead));
  Statement has =
      WARREN_TRY(database.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='fs_overlay_config'"));
  if (!WARREN_TRY(has.find_integer())) return std::optional<std::string>();
  Statement get = WARREN_TRY(database.prepare("SELECT value FROM fs_overlay_config WHERE key='base_path'"));
  Rows rows = get.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(rows.text(0)));
}

}  // namespace warren
