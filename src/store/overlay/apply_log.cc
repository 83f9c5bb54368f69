#include "store/overlay/apply_log.h"

#include "db/database.h"
#include "db/transaction.h"
#include "store/record/journal.h"

namespace warren {

namespace {

Result<bool> has_apply_table(Database& database) {
  Statement has = WARREN_TRY(database.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_apply'"));
  std::optional<std::int64_t> found = WARREN_TRY(has.find_integer());
  return found.has_value();
}

// What had to wait for the end looks at the base then, in every process that uses the agent.
Status remove_rows(Store& store, Sql sql) {
  Database& database = store.database();
  auto change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  if (!WARREN_TRY(has_apply_table(database))) return change.commit();
  Statement remove = WARREN_TRY(database.prepare(sql));
  WARREN_TRY(remove.run());
  if (database.changes() > 0) store.journal()->note_base();
  return change.commit();
}

}  // namespace

Status put_apply_mark(Store& store) { return put_apply_intent(store, {}); }

Status remove_apply_mark(Store& store) { return remove_rows(store, "DELETE FROM wr_apply WHERE length(intent) = 0"); }

Result<bool> is_base_changing(Store& store) {
  Database& database = store.database();
  if (!WARREN_TRY(has_apply_table(database))) return false;
  Statement has = WARREN_TRY(database.prepare("SELECT 1 FROM wr_apply"));
  std::optional<std::int64_t> found = WARREN_TRY(has.find_integer());
  return found.has_value();
}

Status put_apply_intent(Store& store, Bytes intent) {
  Database& database = store.database();
  auto change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(database.execute(
      "CREATE TABLE IF NOT EXISTS wr_apply (id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, intent BLOB NOT NULL)"));
  Statement has = WARREN_TRY(database.prepare("SELECT 1 FROM wr_apply WHERE length(intent) > 0"));
  if (WARREN_TRY(has.find_integer()))
    return Error(Code::kBusy, "another apply of this agent is in progress",
                 "if it was interrupted, `warren apply --recover` finishes it");
  Statement put = WARREN_TRY(database.prepare("INSERT OR REPLACE INTO wr_apply (id, at_us, intent) VALUES (1, ?, ?)"));
  WARREN_TRY(put.bind(1, store.clock().now_us()).bind(2, intent).run());
  return change.commit();
}

Result<std::optional<std::string>> find_apply_intent(Store& store) {
  Database& database = store.database();
  auto view = WARREN_TRY(Transaction::begin(database, Access::kRead));
  if (!WARREN_TRY(has_apply_table(database))) return std::optional<std::string>();
  Statement get = WARREN_TRY(database.prepare("SELECT intent FROM wr_apply WHERE id = 1"));
  Rows rows = get.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(as_text(rows.blob(0))));
}

Status remove_apply_intent(Store& store) { return remove_rows(store, "DELETE FROM wr_apply"); }

}  // namespace warren
