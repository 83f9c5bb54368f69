// A change that is committed completely or not at all.
#pragma once

#include <mutex>

#include "base/result.h"
#include "db/database.h"

namespace warren {

enum class Access {
  kRead,
  kWrite,
  // With Commits::kGrouped these join the open batch, and a shared write opens one: its commit() makes the
  // change visible on this connection and leaves committing the batch for later. Otherwise they are kRead and kWrite.
  // A shared write checks everything before its first change: if a change is not committed, the whole
  // batch is rolled back. kRead and kWrite end the batch first and do not join one.
  kSharedRead,
  kSharedWrite,
};

// Holds the database's lock for its lifetime. Transactions nest within a thread: an inner
// one joins the outer, and only the outermost commits. If an inner write changed rows and was
// destroyed without commit(), the outer one fails, so that no half of a change is committed. A write inside
// a read is refused: the read's view of the file may be out of date.
class Transaction {
 public:
  // Waits up to the database's busy time for another writer, without the database's lock. `outer` is a lock that the
  // caller holds around the transaction; it is released while waiting, too, so what it guards may have changed.
  static Result<Transaction> begin(Database& database, Access access,
                                   std::unique_lock<std::recursive_mutex>* outer = nullptr);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();  // rolls back unless committed

  Status commit();

 private:
  Transaction(Database& database, std::unique_lock<std::recursive_mutex> lock, Access access);
  static Status begin_patiently(Database& database, Access access, std::unique_lock<std::recursive_mutex>& lock,
                                std::unique_lock<std::recursive_mutex>* outer);
  static Status begin_outermost(Database& database, Access access);
  bool writes() const { return access_ == Access::kWrite || access_ == Access::kSharedWrite; }
  Status commit_outermost();

  Database* database_;
  std::unique_lock<std::recursive_mutex> lock_;
  Access access_;
  std::int64_t changes_before_;
};

}  // namespace warren
