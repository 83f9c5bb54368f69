#include "db/transaction.h"

#include <utility>

namespace warren {
namespace {

Error failed_in_part() { return {Code::kIo, "a part of the change failed, so none of it was made"}; }

}  // namespace

Transaction::Transaction(Database& database, std::unique_lock<std::recursive_mutex> lock, Access access)
    : database_(&database), lock_(std::move(lock)), access_(access), changes_before_(database.total_changes()) {}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)),
      lock_(std::move(other.lock_)),
      access_(other.access_),
      changes_before_(other.changes_before_) {}

Result<Transaction> Transaction::begin(Database& database, Access access) {
  auto lock = database.lock();
  if (database.depth_ == 0) {
    if (access == Access::kWrite && database.read_only_) {
      return Error(Code::kReadOnly, "the agent file is open for reading only");
    }
    WARREN_TRY((access == Access::kWrite ? database.begin_write_ : database.begin_read_).run());
    database.writing_ = access == Access::kWrite;
    database.broken_ = false;
    ++database.transaction_number_;
  } else if (access == Access::kWrite && !database.writing_) {
    return Error(Code::kInternal, "a write was begun inside a read");
  } else if (access == Access::kWrite && (database.broken_ || database.was_rolled_back())) {
    // Nothing may be written any more: once SQLite has rolled back, each statement would stand alone.
    return failed_in_part();
  }
  ++database.depth_;
  return Transaction(database, std::move(lock), access);
}

Status Transaction::commit() {
  Database& database = *database_;
  if (database.broken_ || database.was_rolled_back()) return failed_in_part();
  if (database.depth_ > 1) {
    --database.depth_;
    database_ = nullptr;
    lock_.unlock();
    return Ok{};
  }
  if (database.writing_ && database.observer_ != nullptr) WARREN_TRY(database.observer_->before_commit());
  database.foreign_epoch();  // what others did before us must not be taken for our own commit
  WARREN_TRY(database.commit_.run());
  if (database.writing_) {
    database.seen_version_ = database.version();
    if (database.observer_ != nullptr) database.observer_->after_commit();
  }
  --database.depth_;
  database_ = nullptr;
  lock_.unlock();
  return Ok{};
}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  Database& database = *database_;
  --database.depth_;
  if (database.depth_ > 0) {
    bool changed = database.total_changes() != changes_before_;
    if (access_ == Access::kWrite && (changed || database.was_rolled_back())) database.broken_ = true;
    return;
  }
  bool changed = database.total_changes() != changes_before_ || database.was_rolled_back();
  // SQLite may have rolled back by itself (a full disk, say); then there is nothing left to do.
  database.rollback_.run().ignore("the transaction is gone either way");
  if (database.writing_ && changed && database.observer_ != nullptr) database.observer_->after_rollback();
}

}  // namespace warren
