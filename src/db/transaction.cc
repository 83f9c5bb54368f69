#include "db/transaction.h"

#include <utility>

#include "db/batch_lock.h"

namespace warren {
namespace {

Error failed_in_part() { return {Code::kIo, "a part of the change failed, so none of it was made"}; }

bool is_write(Access access) { return access == Access::kWrite || access == Access::kSharedWrite; }

}  // namespace

Transaction::Transaction(Database& database, std::unique_lock<std::recursive_mutex> lock, Access access)
    : database_(&database), lock_(std::move(lock)), access_(access), changes_before_(database.total_changes()) {}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)),
      lock_(std::move(other.lock_)),
      access_(other.access_),
      changes_before_(other.changes_before_) {}

Status Transaction::begin_outermost(Database& database, Access access) {
  if (is_write(access) && database.read_only_) {
    return Error(Code::kReadOnly, "the agent file is open for reading only");
  }
  bool shares =
      database.commits_ == Commits::kGrouped && (access == Access::kSharedRead || access == Access::kSharedWrite);
  if (database.batch_open_ && !shares) WARREN_TRY(database.end_batch());
  if (!database.batch_open_) {
    if (shares && is_write(access)) {
      WARREN_TRY(database.open_batch());
    } else if (shares) {
      WARREN_TRY(database.begin_shared_read());
    } else {
      WARREN_TRY(database.begin(is_write(access) ? database.begin_write_ : database.begin_read_));
    }
    ++database.transaction_number_;
  }
  database.writing_ = is_write(access);
  database.broken_ = false;
  return Ok{};
}

Result<Transaction> Transaction::begin(Database& database, Access access) {
  auto lock = database.lock();
  if (database.depth_ == 0) {
    WARREN_TRY(begin_outermost(database, access));
  } else if (is_write(access) && !database.writing_) {
    return Error(Code::kInternal, "a write was begun inside a read");
  } else if (is_write(access) && (database.broken_ || database.was_rolled_back())) {
    // Nothing may be written any more: once SQLite has rolled back, each statement would stand alone.
    return failed_in_part();
  }
  ++database.depth_;
  return Transaction(database, std::move(lock), access);
}

Status Transaction::commit() {
  Database& database = *database_;
  if (database.broken_ || database.was_rolled_back()) return failed_in_part();
  if (database.depth_ == 1) WARREN_TRY(commit_outermost());
  --database.depth_;
  database_ = nullptr;
  lock_.unlock();
  return Ok{};
}

Status Transaction::commit_outermost() {
  Database& database = *database_;
  if (database.batch_open_) {
    if (database.writing_ && database.is_batch_due()) return database.commit_batch();
    return Ok{};
  }
  if (std::exchange(database.lazy_, false)) return Ok{};
  if (database.writing_ && database.observer_ != nullptr) WARREN_TRY(database.observer_->before_commit());
  database.foreign_epoch();  // what others did before us must not be taken for our own commit
  WARREN_TRY(database.commit_.run());
  if (database.writing_) {
    database.seen_version_ = database.version();
    if (database.batch_lock_) database.batch_lock_->tell_listeners();
    if (database.observer_ != nullptr) database.observer_->after_commit();
  }
  return Ok{};
}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  Database& database = *database_;
  --database.depth_;
  bool changed = database.total_changes() != changes_before_ || database.was_rolled_back();
  if (database.depth_ > 0) {
    if (writes() && changed) database.broken_ = true;
    return;
  }
  if (database.batch_open_) {
    if (writes() && (changed || database.broken_)) database.lose_batch(failed_in_part());
    return;
  }
  if (database.batch_was_lost_) {  // by our own commit
    database.batch_was_lost_ = false;
    return;
  }
  if (std::exchange(database.lazy_, false)) return;
  // SQLite may have rolled back by itself (a full disk, say); then there is nothing left to do.
  database.rollback_.run().ignore("the transaction is gone either way");
  if (database.writing_ && changed && database.observer_ != nullptr) database.observer_->after_rollback();
}

}  // namespace warren
