#include "store/overlay_schema.h"

#include "db/database.h"
#include "db/transaction.h"

namespace warren {
namespace {

constexpr Sql kTables = R"sql(
CREATE TABLE IF NOT EXISTS fs_whiteout (
  path TEXT PRIMARY KEY,
  parent_path TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_fs_whiteout_parent ON fs_whiteout(parent_path);
CREATE TABLE IF NOT EXISTS fs_origin (
  delta_ino INTEGER PRIMARY KEY,
  base_ino INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS fs_overlay_config (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
)sql";

}  // namespace

Status make_overlay(Store& store, std::string_view base_path) {
  Database& database = store.database();
  auto change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(database.execute(kTables));
  Statement set =
      WARREN_TRY(database.prepare("INSERT OR REPLACE INTO fs_overlay_config (key, value) VALUES ('base_path', ?)"));
  WARREN_TRY(set.bind(1, base_path).run());
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
