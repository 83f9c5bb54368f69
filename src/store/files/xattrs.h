// Extended attributes: wr_xattr.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "store/schema.h"

namespace warren {

// Use it inside a transaction. A file without our tables has no extended attributes.
class Xattrs {
 public:
  static Result<std::unique_ptr<Xattrs>> open(Database& database, const Schema& schema);

  Result<std::optional<std::string>> find(Inode node, std::string_view name);
  Result<std::vector<std::string>> list(Inode node);
  Status set(Inode node, std::string_view name, Bytes value);
  Status erase(Inode node, std::string_view name);
  Status erase_all(Inode node);

 private:
  explicit Xattrs(Database& database) : database_(database) {}
  Result<bool> has_any();  // most agents have none, and then need no queries

  Database& database_;
  bool exists_ = false;
  std::optional<bool> any_;  // as of foreign_epoch_
  std::uint64_t foreign_epoch_ = 0;
  Statement first_;
  Statement find_;
  Statement list_;
  Statement set_;
  Statement erase_;
  Statement erase_all_;
};

}  // namespace warren
