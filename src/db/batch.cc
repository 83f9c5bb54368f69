// The part of Database that holds several changes back and commits them together.
#include "base/limits.h"
#include "db/batch_lock.h"
#include "db/database.h"

namespace warren {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

std::int64_t nanoseconds(SteadyTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

// Begins an SQLite transaction, after asking a process that holds a batch back to commit it.
Status Database::begin(Statement& statement) {
  bool waits = batch_lock_ != nullptr && batch_lock_->is_held_by_other();
  if (waits) batch_lock_->knock_and_wait();  // in vain: SQLite's own waiting, and its error, come next
  Status begun = statement.run();
  if (waits) batch_lock_->stop_knocking();
  return begun;
}

Status Database::open_batch() {
  if (batch_lock_) batch_lock_->make_way();
  WARREN_TRY(begin(begin_write_));
  batch_open_ = true;
  batch_bytes_ = 0;
  batch_end_wanted_ = false;
  batch_opened_ns_ = nanoseconds(std::chrono::steady_clock::now());
  if (batch_lock_) batch_lock_->hold();
  if (observer_ != nullptr) observer_->batch_opened();
  return Ok{};
}

bool Database::is_batch_due() const {
  if (batch_end_wanted_ || batch_bytes_ >= limits::kBatchBytes) return true;
  std::int64_t age = nanoseconds(std::chrono::steady_clock::now()) - batch_opened_ns_;
  return age >= std::chrono::nanoseconds(limits::kBatchTime).count();
}

void Database::note_kept_back(std::uint64_t bytes) {
  batch_bytes_ += bytes;
  ++kept_back_;
}

std::optional<SteadyTime> Database::batch_opened_at() const {
  std::int64_t at = batch_opened_ns_;
  if (at == 0) return std::nullopt;
  return SteadyTime(std::chrono::duration_cast<SteadyTime::duration>(std::chrono::nanoseconds(at)));
}

Status Database::end_batch() {
  auto guard = lock();
  if (!batch_open_ || depth_ > 0) return Ok{};
  depth_ = 1;  // what the observer does nests
  writing_ = true;
  Status done = commit_batch();
  depth_ = 0;
  batch_was_lost_ = false;
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
    batch_was_lost_ = true;
    return done;
  }
  seen_version_ = version();
  close_batch();
  if (observer_ != nullptr) observer_->after_commit();
  return Ok{};
}

void Database::close_batch() {
  batch_open_ = false;
  batch_opened_ns_ = 0;
  if (batch_lock_) batch_lock_->let_go();
}

void Database::lose_batch(const Error& why) {
  rollback_.run().ignore("the transaction is gone either way");
  close_batch();
  if (!lost_batch_) lost_batch_ = why;
  if (observer_ != nullptr) observer_->after_rollback();
}

}  // namespace warren
