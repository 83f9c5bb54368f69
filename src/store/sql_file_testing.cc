#include "store/sql_file_testing.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "db/database.h"

namespace warren::testing {
namespace {

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error(Code::kNotFound, fmt::format("no '{}'", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Status make_from_sql(const std::string& path, std::string_view name) {
  std::string text = WARREN_TRY(read_text(fmt::format("{}/{}", WARREN_TEST_DATA, name)));
  auto database = WARREN_TRY(Database::open(path, {.mode = OpenMode::kCreate}));
  std::string_view rest = text;
  while (!rest.empty()) {
    std::size_t end = rest.find(";\n");
    if (end == rest.npos) return Error(Code::kInvalid, fmt::format("'{}' does not end in a statement", name));
    Statement statement = WARREN_TRY(database->prepare(UserSql{rest.substr(0, end + 1)}));
    WARREN_TRY(statement.run());
    rest.remove_prefix(end + 2);
  }
  return database->execute("PRAGMA journal_mode=DELETE");
}

}  // namespace warren::testing
