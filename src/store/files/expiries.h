// When files expire (fs/expiry.h): wr_expiry.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "store/schema.h"

namespace warren {

// Use it inside a transaction that has read something already. Where no file expires, every question costs a comparison
// and no query.
class Expiries {
 public:
  static Result<std::unique_ptr<Expiries>> open(Database& database, const Schema& schema);

  Result<std::optional<std::int64_t>> next();  // the earliest of all, in milliseconds since 1970
  Result<std::optional<std::int64_t>> find(Inode node);
  // As far as known without a query: false only if that is sure, but for what other processes did since the last one.
  bool may_be_before(std::int64_t at_ms) const { return exists_ && (!is_known_ || (next_ && *next_ <= at_ms)); }
  bool is_unused() const { return !exists_ || (is_known_ && !next_); }

  // The entry is where to look for the name once the file is due; it may be wrong.
  Status set(Inode node, std::int64_t at_ms, const std::optional<EntryName>& entry);
  Status move(Inode node, Inode parent, std::string_view name);  // the file was renamed
  Status erase(Inode node);

  struct Due {
    Inode node;
    std::optional<EntryName> entry;
  };
  Result<std::vector<Due>> list_due(std::int64_t now_ms);

  void forget() { is_known_ = false; }  // after a rollback

 private:
  explicit Expiries(Database& database) : database_(database) {}

  Database& database_;
  bool exists_ = false;
  bool is_known_ = false;             // next_, as of foreign_epoch_
  std::optional<std::int64_t> next_;  // nullopt: no file expires
  std::uint64_t foreign_epoch_ = 0;
  std::uint64_t checked_transaction_ = 0;
  Statement next_of_all_;
  Statement find_;
  Statement due_;
  Statement set_;
  Statement move_;
  Statement erase_;
};

}  // namespace warren
