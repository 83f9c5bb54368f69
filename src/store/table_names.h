// The tables and columns of a file: old files, and files of other programs, lack some.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/database.h"

namespace warren {

class TableNames {
 public:
  static Result<TableNames> read(Database& database);

  // "fs_inode", "fs_inode.nlink"
  bool has(std::string_view name) const { return names_.contains(name); }

 private:
  std::set<std::string, std::less<>> names_;
};

}  // namespace warren
