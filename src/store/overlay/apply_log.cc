#include "store/overlay/apply_log.h"

#include "db/database.h"
#include "db/transaction.h"

namespace warren {

Status put_apply_intent(Store& store, Bytes intent) {
  Database& database = store.database();
  auto change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(database.execute(
      "CREATE TABLE IF NOT EXISTS wr_apply (id INTEGER PRIMARY KEY, at_us INTEGER NOT NULL, intent BLOB NOT NULL)"));
  Statement has = WARREN_TRY(database.prepare("SELECT 1 FROM wr_apply"));
  if (WARREN_TRY(has.find_integer())) return Error(Code::kBusy, "another apply of this agent is in progress");
  Statement put = WARREN_TRY(database.prepare("INSERT INTO wr_apply (id, at_us, intent) VALUES (1, ?, ?)"));
  WARREN_TRY(put.bind(1, store.clock().now_us()).bind(2, intent).run());
  return change.commit();
}

Result<std::optional<std::string>> find_apply_intent(Store& store) {
  Database& database = store.database();
  auto view = WARREN_TRY(Transaction::begin(database, Access::kRead));
  Statement has = WARREN_TRY(database.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_apply'"));
  if (!WARREN_TRY(has.find_integer())) return std::optional<std::string>();
  Statement get = WARREN_TRY(database.prepare("SELECT intent FROM wr_apply WHERE id = 1"));
  Rows rows = get.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(as_text(rows.blob(0))));
}

Result<bool> is_base_changing(Store& store) {
  std::optional<std::string> intent = WARREN_TRY(find_apply_intent(store));
  return intent.has_value();
}

Status remove_apply_intent(Store& store) {
  Database& database = store.database();
  auto change = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  Statement remove = WARREN_TRY(database.prepare("DELETE FROM wr_apply"));
  WARREN_TRY(remove.run());
  return change.commit();
}

}  // namespace warren
