// Transaction, and the part of Database that begins and ends SQLite's transactions.
#include "db/transaction.h"

#include <utility>

#include "db/wal_signals.h"

namespace warren {
namespace {

Error failed_in_part() { return {Code::kIo, "part of the change failed, so all of it was rolled back"}; }

bool is_write(Access access) { return access == Access::kWrite || access == Access::kSharedWrite; }

}  // namespace

bool Database::is_batch_elsewhere(Access access) {
  if (signals_ == nullptr) return false;
  return is_write(access) ? signals_->is_batch_locked_elsewhere() : signals_->is_batch_locked_elsewhere_lately();
}

// Begins a transaction of SQLite's, after asking a process that has a batch open to commit it.
Status Database::begin(Statement& statement) {
  bool waits = is_batch_elsewhere(&statement == &begin_write_ ? Access::kWrite : Access::kRead);
  if (waits) signals_->knock_and_wait();  // on timeout SQLite waits in its own way and returns its own error
  Status begun = statement.run();
  if (waits) signals_->stop_knocking();
  return begun;
}

Status Database::begin_shared_read() {
  if (log_index_ == nullptr) return begin(begin_read_);
  // Read before SQLite reads it: a commit in between is seen now, and makes the next shared read look again.
  CommitMark now = read_log_index();
  if (now == seen_index_) {
    deferred_ = true;
    return Ok{};
  }
  WARREN_TRY(begin(begin_read_));
  WARREN_TRY(look_.find_integer());  // SQLite reads the file's state only at the first statement
  seen_index_ = now;
  return Ok{};
}

Status Database::begin_deferred() {
  deferred_ = false;
  return begin_read_.run();
}

Status Database::look() {
  if (deferred_ || batch_.is_open()) return Ok{};  // nobody else can have written
  WARREN_TRY(look_.find_integer());
  return Ok{};
}

Status Database::open_batch() {
  batch_.before_open();
  WARREN_TRY(begin(begin_write_));
  batch_.opened();
  if (observer_ != nullptr) observer_->batch_opened();
  return Ok{};
}

Status Database::end_batch() {
  auto guard = lock();
  if (!batch_.is_open() || depth_ > 0) return Ok{};
  depth_ = 1;  // transactions of the observer nest
  writing_ = true;
  Status done = commit_batch();
  depth_ = 0;
  failed_batch_commit_ = false;
  return done;
}

// Within the outermost transaction of the batch.
Status Database::commit_batch() {
  auto attempt = [this]() -> Status {
    if (observer_ != nullptr) WARREN_TRY(observer_->before_commit());
    foreign_epoch();
    return commit_.run();
  };
  Status done = attempt();
  if (!done.ok()) {
    lose_batch(done.error());
    failed_batch_commit_ = true;
    return done;
  }
  seen_version_ = version();
  log_is_checkpointed_ = false;
  batch_.closed();
  if (signals_) signals_->notify_listeners();
  if (observer_ != nullptr) observer_->after_commit();
  return Ok{};
}

void Database::lose_batch(const Error& why) {
  rollback_.run().ignore("the transaction is over either way");
  batch_.lost(why);
  if (observer_ != nullptr) observer_->after_rollback();
}

Transaction::Transaction(Database& database, std::unique_lock<std::recursive_mutex> lock, Access access)
    : database_(&database), lock_(std::move(lock)), access_(access), changes_before_(database.total_changes()) {}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)),
      lock_(std::move(other.lock_)),
      access_(other.access_),
      changes_before_(other.changes_before_) {}

Status Transaction::begin_outermost(Database& database, Access access) {
  if (is_write(access) && database.read_only_) {
    return Error(Code::kReadOnly, "the agent file is open read-only");
  }
  bool shares =
      database.commits_ == Commits::kGrouped && (access == Access::kSharedRead || access == Access::kSharedWrite);
  if (database.batch_.is_open() && !shares) WARREN_TRY(database.end_batch());
  if (!database.batch_.is_open()) {
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
    // Once SQLite has rolled back, each further statement would be committed on its own.
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
  if (database.batch_.is_open()) {
    if (database.writing_ && database.batch_.is_due()) return database.commit_batch();
    return Ok{};
  }
  if (std::exchange(database.deferred_, false)) return Ok{};
  if (database.writing_ && database.observer_ != nullptr) WARREN_TRY(database.observer_->before_commit());
  database.foreign_epoch();  // so that others' earlier commits are not mistaken for ours
  WARREN_TRY(database.commit_.run());
  if (database.writing_) {
    database.seen_version_ = database.version();
    if (database.signals_) database.signals_->notify_listeners();
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
  if (database.batch_.is_open()) {
    if (writes() && (changed || database.broken_)) database.lose_batch(failed_in_part());
    return;
  }
  if (std::exchange(database.failed_batch_commit_, false)) return;
  if (std::exchange(database.deferred_, false)) return;
  // Fails if SQLite has rolled back by itself (a full disk, say).
  database.rollback_.run().ignore("the transaction is over either way");
  if (database.writing_ && changed && database.observer_ != nullptr) database.observer_->after_rollback();
}

}  // namespace warren
