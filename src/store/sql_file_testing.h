// Agent files of old schemas and by other programs, kept as SQL text in tests/data.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::testing {

// Makes the database `path` from tests/data/<name>, in which every statement ends its line with a
// semicolon and no other line does. The file is in rollback mode, as SQLite makes them.
Status make_from_sql(const std::string& path, std::string_view name);

}  // namespace warren::testing
