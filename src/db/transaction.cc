// Transaction, and the part of Database that begins and ends SQLite's transactions.
#include "db/transaction.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include <sqlite3.h>

#include "base/no_wait.h"

#include "db/wal_signals.h"

namespace warren {
namespace {

Error failed_in_part() { return {Code::kIo, "part of the change failed, so all of it was rolled back"}; }

constexpr std::chrono::milliseconds kYieldTime{100};  // for which other processes go first

// Whether a commit that failed like this can succeed later. Others, such as a row that breaks a rule of the schema,
// would keep everything after them from being stored.
bool may_pass(Code code) {
  return code == Code::kNoSpace || code == Code::kIo || code == Code::kBusy || code == Code::kDenied ||
         code == Code::kReadOnly || code == Code::kLimit;
}

bool is_write(Access access) { return access == Access::kWrite || access == Access::kSharedWrite; }

}  // namespace

bool Database::is_batch_elsewhere(Access access) {
  if (signals_ == nullptr) return false;
  return is_write(access) ? signals_->is_batch_locked_elsewhere() : signals_->is_batch_locked_elsewhere_lately();
}

// A process that has a batch open is asked to commit it first.
Status Database::begin_to_read() {
  bool waits = is_batch_elsewhere(Access::kRead);
  if (waits) signals_->knock_and_wait();  // on timeout the last committed state is read
  Status begun = begin_read_.run();
  if (waits) signals_->stop_knocking();
  return begun;
}

Status Database::begin_to_write() {
  if (is_batch_elsewhere(Access::kWrite)) {
    signals_->knock();
    return Error(Code::kBusy, "another process is writing to the agent file");
  }
  sqlite3_busy_timeout(handle_, 0);  // the caller waits, without the lock
  Status begun = begin_write_.run();
  sqlite3_busy_timeout(handle_, static_cast<int>(busy_wait_.count()));
  return begun;
}

Status Database::begin_shared_read() {
  if (log_index_ == nullptr) return begin_to_read();
  // Read before SQLite reads it: a commit in between is seen now, and makes the next shared read look again.
  CommitMark now = read_log_index();
  if (now == seen_index_) {
    deferred_ = true;
    return Ok{};
  }
  WARREN_TRY(begin_to_read());
  auto state = look_.find_integer();  // SQLite reads the file's state only at the first statement
  if (!state.ok()) {
    rollback_.run().ignore("nothing was changed, and the error that matters is the first");
    return state.error();
  }
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
  if (signals_ != nullptr && signals_->is_knocked()) {
    // Others go first, but not for ever.
    auto now = std::chrono::steady_clock::now();
    if (!yields_until_) yields_until_ = now + kYieldTime;
    if (now < *yields_until_) return Error(Code::kBusy, "another process is about to write to the agent file");
  }
  yields_until_.reset();
  WARREN_TRY(begin_to_write());
  commits_at_batch_ = count_commits();
  batch_.opened();
  if (observer_ != nullptr) observer_->batch_opened();
  return Ok{};
}

void Database::abandon_batch() {
  auto guard = lock();
  if (!batch_.is_open()) return;
  if (!was_rolled_back()) rollback_.run().ignore("the transaction is over either way");
  batch_.closed();
}

Status Database::end_batch() {
  auto guard = lock();
  if (!batch_.is_open() || depth_ > 0) return Ok{};
  revive_batch();
  if (!batch_.is_open()) return Error(Code::kIo, "the latest changes could not be stored and are lost");
  depth_ = 1;  // transactions of the observer nest
  writing_ = true;
  Status done = commit_batch();
  depth_ = 0;
  lost_batch_ = false;
  return done;
}

// Within the outermost transaction of the batch. On failure the batch is still open, with all of its changes, unless it
// could not even be restored.
Status Database::commit_batch() {
  auto attempt = [this]() -> Status {
    if (observer_ != nullptr) WARREN_TRY(observer_->before_commit());
    foreign_epoch();
    return commit_.run();
  };
  Status done = attempt();
  if (!done.ok()) {
    bool is_hopeless = !may_pass(done.error().code()) && batch_.failures() + 1 >= limits::kBatchAttempts;
    Status restored = is_hopeless ? done : restore_batch();
    if (!restored.ok()) {
      lose_batch();
      lost_batch_ = true;
      return done;
    }
    batch_.failed(done.error());
    return done;
  }
  seen_version_ = version();
  log_is_checkpointed_ = false;
  batch_.closed();
  if (signals_) signals_->notify_listeners();
  if (observer_ != nullptr) observer_->after_commit();
  check_name().ignore("the batch is stored; sync and closing the store report it");
  return Ok{};
}

// Restores the state after the statements in redo(), whatever SQLite has done meanwhile. The observer is responsible
// for rows that it keeps back.
Status Database::restore_batch() {
  is_repeating_ = true;
  Status restored = begin_and_repeat();
  is_repeating_ = false;
  return restored;
}

Status Database::begin_and_repeat() {
  if (!was_rolled_back()) rollback_.run().ignore("the transaction is over either way");
  WARREN_TRY(begin_again());
  WARREN_TRY(look_.find_integer());
  // Another program's rows must not be overwritten by what was decided without them. The rest of the log's index is no
  // measure: a commit that begins the log anew changes it even if it fails.
  if (!commits_at_batch_ || commits_at_batch_ != count_commits()) {
    return Error(Code::kConflict,
                 "another program has changed the agent file between two attempts to store the changes");
  }
  seen_version_ = version();  // SQLite's own count moves with a rollback, too
  return repeat_statements();
}

// Usually succeeds at once: other Warren processes knock and wait for our batch. Holds the lock, because the state that
// readers would see lacks the batch.
Status Database::begin_again() {
  auto until = std::chrono::steady_clock::now() + busy_wait_;
  for (;;) {
    sqlite3_busy_timeout(handle_, 0);
    Status begun = begin_write_.run();
    sqlite3_busy_timeout(handle_, static_cast<int>(busy_wait_.count()));
    if (begun.ok() || begun.error().code() != Code::kBusy || std::chrono::steady_clock::now() >= until) return begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Status Database::repeat_statements() {
  const Redo& redo = batch_.redo();
  std::map<std::uint32_t, Statement> prepared;
  for (const Redo::Step& step : redo.steps()) {
    auto known = prepared.find(step.sql);
    if (known == prepared.end()) {
      known = prepared.emplace(step.sql, WARREN_TRY(prepare_again(redo.sql(step.sql)))).first;
    }
    Statement& statement = known->second;
    for (std::size_t i = 0; i < step.values.size(); ++i) statement.bind_again(static_cast<int>(i) + 1, step.values[i]);
    Status done = statement.run();
    bool is_conflict = !done.ok() && done.error().code() == Code::kConflict;
    if (!done.ok() && !is_conflict) return done;
    if (is_conflict != (step.outcome == RedoOutcome::kConflict)) {
      return Error(Code::kInternal, "a repeated statement had another effect than the first time");
    }
  }
  return Ok{};
}

// A change of a batch failed after its first write: takes back that change alone.
void Database::undo_change() {
  Status undone = Ok{};
  if (batch_.redo().size() != change_at_ || was_rolled_back() || failed_statement_) {
    batch_.redo().shorten(change_at_);
    undone = restore_batch();
  }
  if (!undone.ok()) return lose_batch();
  if (observer_ != nullptr) observer_->change_undone();
}

// A statement outside of any transaction can make SQLite roll the batch back, too. Further ones would each be committed
// on their own.
void Database::revive_batch() {
  if (!batch_.is_open() || !was_rolled_back()) return;
  if (!restore_batch().ok()) lose_batch();
}

void Database::lose_batch() {
  if (!was_rolled_back()) rollback_.run().ignore("the transaction is over either way");
  batch_.closed();
  ++lost_batches_;
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
  bool shares =
      database.commits_ == Commits::kGrouped && (access == Access::kSharedRead || access == Access::kSharedWrite);
  database.revive_batch();
  if (database.batch_.is_open() && !shares) WARREN_TRY(database.end_batch());
  if (is_write(access) && shares) database.make_room_for_unit();
  if (!database.batch_.is_open()) {
    if (shares && is_write(access)) {
      WARREN_TRY(database.open_batch());
    } else if (shares) {
      WARREN_TRY(database.begin_shared_read());
    } else {
      WARREN_TRY(is_write(access) ? database.begin_to_write() : database.begin_to_read());
    }
    ++database.transaction_number_;
  }
  database.writing_ = is_write(access);
  database.broken_ = false;
  database.failed_statement_ = false;
  if (database.batch_.is_open() && is_write(access)) {
    database.change_at_ = database.batch_.redo().size();
    if (database.observer_ != nullptr) database.observer_->change_began();
  }
  return Ok{};
}

// Waits for other writers without the lock, so that our readers do not wait.
Status Transaction::begin_patiently(Database& database, Access access, std::unique_lock<std::recursive_mutex>& lock,
                                    std::unique_lock<std::recursive_mutex>* outer) {
  auto until = std::chrono::steady_clock::now() + database.busy_wait_;
  std::chrono::microseconds pause{50};
  constexpr std::chrono::microseconds kLongestPause{5000};
  for (;;) {
    Status begun = begin_outermost(database, access);
    bool waits = !begun.ok() && begun.error().code() == Code::kBusy && is_write(access) &&
                 std::chrono::steady_clock::now() < until && !NoWait::forbids_waiting();
    if (!waits) {
      if (database.signals_ && is_write(access)) database.signals_->stop_knocking();
      return begun;
    }
    lock.unlock();
    if (outer != nullptr) outer->unlock();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
    if (outer != nullptr) outer->lock();
    lock.lock();
  }
}

Result<Transaction> Transaction::begin(Database& database, Access access,
                                       std::unique_lock<std::recursive_mutex>* outer) {
  auto lock = database.lock();
  if (database.is_overwritten_) return database.overwritten();
  if (is_write(access) && database.read_only_) {
    return Error(Code::kReadOnly, "the agent file is open read-only");
  }
  if (database.depth_ == 0) {
    WARREN_TRY(begin_patiently(database, access, lock, outer));
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
    if (!database.writing_) return Ok{};
    if (database.observer_ != nullptr) database.observer_->change_done();
    if (!database.batch_.is_due()) return Ok{};
    Status done = database.commit_batch();
    return database.lost_batch_ ? done : Ok{};  // otherwise the change is kept, and committed later
  }
  if (std::exchange(database.deferred_, false)) return Ok{};
  if (database.writing_ && database.observer_ != nullptr) WARREN_TRY(database.observer_->before_commit());
  database.foreign_epoch();  // so that others' earlier commits are not mistaken for ours
  WARREN_TRY(database.commit_.run());
  if (database.writing_) {
    database.seen_version_ = database.version();
    database.log_is_checkpointed_ = false;
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
    bool is_change = writes() && (changed || database.broken_ || database.failed_statement_);
    if (is_change) {
      database.undo_change();
    } else if (database.was_rolled_back()) {
      Status restored = database.restore_batch();
      if (!restored.ok()) database.lose_batch();
    } else if (writes() && database.observer_ != nullptr) {
      database.observer_->change_refused();
    }
    return;
  }
  if (std::exchange(database.lost_batch_, false)) return;
  if (std::exchange(database.deferred_, false)) return;
  // Fails if SQLite has rolled back by itself (a full disk, say).
  database.rollback_.run().ignore("the transaction is over either way");
  if (database.writing_ && changed && database.observer_ != nullptr) database.observer_->after_rollback();
}

}  // namespace warren
