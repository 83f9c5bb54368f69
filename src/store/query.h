// Runs SQL that a user typed on an agent file: `warren sql`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "store/store.h"

namespace warren {

enum class QueryAccess { kRead, kWrite };

struct SqlBlob {
  std::string bytes;
};
using QueryValue = std::variant<std::nullptr_t, std::int64_t, double, std::string, SqlBlob>;

// Called once with the column names and no row, then for each row.
struct QueryReader {
  std::function<Status(const std::vector<std::string>& columns)> columns;
  std::function<Status(const std::vector<QueryValue>& row)> row;
};

// Runs one statement in one transaction. Returns how many rows it changed. kReadOnly for a statement that
// would write without kWrite. An error from the reader rolls it back.
Result<std::int64_t> run_query(Store& store, std::string_view sql, QueryAccess access, const QueryReader& reader);

}  // namespace warren
