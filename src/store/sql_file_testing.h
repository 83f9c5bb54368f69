// Agent files of old schemas and of other programs, stored as SQL text in tests/data.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::testing {

// Creates the database `path` from tests/data/<name>, in which a line ends with a semicolon exactly where
// a statement ends. The file is in rollback mode, SQLite's default.
Status make_from_sql(const std::string& path, std::string_view name);

}  // namespace warren::testing
