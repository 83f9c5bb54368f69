// A change that holds together: all of it is committed, or none.
#pragma once

#include <mutex>

#include "base/result.h"
#include "db/database.h"

namespace warren {

enum class Access {
  kRead,
  kWrite,
  // With Commits::kGrouped these join the open batch, and a shared write opens one: its commit() makes the
  // change visible here and leaves committing the batch for later. Without, they are kRead and kWrite.
  // Whoever shares checks everything before the first change: a change that is not committed takes the
  // whole batch with it. kRead and kWrite end the batch first and stand alone.
  kSharedRead,
  kSharedWrite,
};

// Holds the database's lock for as long as it lives. Transactions nest within a thread: an inner
// one joins the outer and only the outermost commits. An inner write that changed rows and went
// away without commit() makes the outer one fail, since half a change must not land. A write inside
// a read is refused: the read's view of the file may be old already.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database, Access access);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();  // rolls back unless committed

  Status commit();

 private:
  Transaction(Database& database, std::unique_lock<std::recursive_mutex> lock, Access access);
  static Status begin_outermost(Database& database, Access access);
  bool writes() const { return access_ == Access::kWrite || access_ == Access::kSharedWrite; }
  Status commit_outermost();

  Database* database_;
  std::unique_lock<std::recursive_mutex> lock_;
  Access access_;
  std::int64_t changes_before_;
};

}  // namespace warren
