#include "store/table_names.h"

#include <fmt/format.h>

namespace warren {

Result<TableNames> TableNames::read(Database& database) {
  TableNames tables;
  Statement query = WARREN_TRY(database.prepare(
      "SELECT t.name, c.name FROM sqlite_schema t LEFT JOIN pragma_table_info(t.name) c WHERE t.type = 'table'"));
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    tables.names_.emplace(rows.text(0));
    tables.names_.insert(fmt::format("{}.{}", rows.text(0), rows.text(1)));
  }
  return tables;
}

}  // namespace warren
