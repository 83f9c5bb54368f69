#include "store/query.h"

#include "db/database.h"
#include "db/transaction.h"
#include "store/files/sqlite_fs.h"
#include "store/tables/kv.h"

namespace warren {
namespace {

QueryValue value_of(const Rows& rows, int column) {
  switch (rows.type(column)) {
    case ColumnType::kInteger: return rows.integer(column);
    case ColumnType::kReal: return rows.real(column);
    case ColumnType::kText: return std::string(rows.text(column));
    case ColumnType::kBlob: return SqlBlob{std::string(as_text(rows.blob(column)))};
    case ColumnType::kNull: break;
  }
  return nullptr;
}

Status read_rows(Statement& statement, const QueryReader& reader) {
  Rows rows = statement.rows();
  std::vector<std::string> columns;
  for (int i = 0; i < rows.column_count(); ++i) columns.emplace_back(rows.column_name(i));
  WARREN_TRY(reader.columns(columns));
  std::vector<QueryValue> row(columns.size());
  while (WARREN_TRY(rows.next())) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = value_of(rows, static_cast<int>(i));
    WARREN_TRY(reader.row(row));
  }
  return Ok{};
}

}  // namespace

Result<std::int64_t> run_query(Store& store, std::string_view sql, QueryAccess access, const QueryReader& reader) {
  Database& database = store.database();
  auto change =
      WARREN_TRY(Transaction::begin(database, access == QueryAccess::kWrite ? Access::kWrite : Access::kRead));
  Statement statement = WARREN_TRY(database.prepare(UserSql{sql}));
  if (access == QueryAccess::kRead && !statement.read_only()) {
    return Error(Code::kReadOnly, "the statement would change the agent", "use --write to allow it");
  }
  std::int64_t before = database.total_changes();
  WARREN_TRY(read_rows(statement, reader));
  std::int64_t changed = database.total_changes() - before;
  if (changed > 0) {
    store.journal()->note_everything();
    store.fs().forget_rows();
    store.kv().after_rollback();  // what it counted is not what the table has
  }
  WARREN_TRY(change.commit());
  return changed;
}

}  // namespace warren
