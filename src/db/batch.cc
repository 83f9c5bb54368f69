// The part of Database that holds several changes back and commits them together.
#include <algorithm>
#include <cerrno>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/limits.h"
#include "db/batch_lock.h"
#include "db/database.h"
#include "db/transaction.h"
#include "os/error.h"

namespace warren {
namespace {

// Pages that a change touches besides its data: a row, its entry, their indexes.
constexpr std::uint64_t kReservedPerChange = 12'288;

using SteadyTime = std::chrono::steady_clock::time_point;

std::int64_t nanoseconds(SteadyTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

// A reader that has looked a moment ago does not look again: that is a system call, and reading what is in
// memory costs little more.
bool Database::is_batch_elsewhere(Access access) {
  constexpr std::int64_t kMoment = 200'000;  // nanoseconds
  if (batch_lock_ == nullptr) return false;
  std::int64_t now = nanoseconds(std::chrono::steady_clock::now());
  if (access == Access::kRead && now - looked_elsewhere_ns_ < kMoment) return false;
  looked_elsewhere_ns_ = now;
  return batch_lock_->is_held_by_other();
}

// Begins an SQLite transaction, after asking a process that holds a batch back to commit it.
Status Database::begin(Statement& statement) {
  bool waits = is_batch_elsewhere(&statement == &begin_write_ ? Access::kWrite : Access::kRead);
  if (waits) batch_lock_->knock_and_wait();  // in vain: SQLite's own waiting, and its error, come next
  Status begun = statement.run();
  if (waits) batch_lock_->stop_knocking();
  return begun;
}

Status Database::begin_shared_read() {
  if (log_index_ == nullptr) return begin(begin_read_);
  // Looked at before SQLite does: a commit in between is seen now and found again the next time.
  CommitMark now = read_log_index();
  if (now == seen_index_) {
    lazy_ = true;
    return Ok{};
  }
  WARREN_TRY(begin(begin_read_));
  WARREN_TRY(look_.find_integer());  // only a first statement makes SQLite look at the file
  seen_index_ = now;
  return Ok{};
}

Status Database::look() {
  if (lazy_ || batch_open_) return Ok{};  // nobody else can have written
  WARREN_TRY(look_.find_integer());
  return Ok{};
}

Status Database::begin_lazy() {
  lazy_ = false;
  return begin_read_.run();
}

Status Database::open_batch() {
  if (batch_lock_) batch_lock_->make_way();
  WARREN_TRY(begin(begin_write_));
  batch_open_ = true;
  batch_bytes_ = 0;
  // Another mount shows what we do here: it must not be late, so this batch ends with its first change.
  batch_end_wanted_ = batch_lock_ != nullptr && batch_lock_->has_listeners();
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

// What the batch may reserve. Each byte is written to the log, where room that the log had before is used
// again, and once more to the file when the log is moved there, where free pages are. The rest of the disk
// is for those who remove something.
Result<std::uint64_t> Database::measure_headroom() {
  constexpr std::int64_t kKeptFree = std::int64_t{1} << 20;
  constexpr std::int64_t kMost = std::int64_t{64} << 20;  // others fill the disk too: look again
  constexpr std::int64_t kFrameBytes = 24;                // before each page in the log
  struct statvfs disk {};
  struct stat log {};
  int fd = batch_lock_->wal_fd();
  if (::fstatvfs(fd, &disk) != 0 || ::fstat(fd, &log) != 0) return system_error(errno, "look at the disk");
  auto available = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize) - kKeptFree;
  if (available > 4 * kMost) return static_cast<std::uint64_t>(kMost);  // by far enough
  std::optional<std::int64_t> free_pages = WARREN_TRY(free_count_.find_integer());
  std::int64_t log_bytes = std::int64_t{log.st_blocks} * 512;
  std::int64_t unmoved =
      log_is_moved_ ? 0 : std::min(std::int64_t{log_pages_} * (page_bytes_ + kFrameBytes), log_bytes);
  auto fits = [&](std::int64_t bytes) {
    std::int64_t for_log = std::max<std::int64_t>(0, bytes - (log_bytes - unmoved));
    std::int64_t for_file = std::max<std::int64_t>(0, unmoved + bytes - free_pages.value_or(0) * page_bytes_);
    return for_log + for_file <= available;
  };
  std::int64_t most = 0;
  for (std::int64_t step = kMost; step >= page_bytes_; step /= 2) {
    if (fits(most + step)) most += step;
  }
  return static_cast<std::uint64_t>(most);
}

Status Database::reserve(std::uint64_t bytes) {
  if (commits_ != Commits::kGrouped || batch_lock_ == nullptr) return Ok{};
  auto guard = lock();
  if (depth_ > 0) return Ok{};
  std::uint64_t needed = bytes + bytes / 8 + kReservedPerChange;
  if (reserved_bytes_ + needed > headroom_bytes_) headroom_bytes_ = WARREN_TRY(measure_headroom());
  if (reserved_bytes_ + needed > headroom_bytes_) {
    // Nearly full: what can be moved to the file makes the log's room free again.
    WARREN_TRY(end_batch());
    WARREN_TRY(checkpoint());
    headroom_bytes_ = WARREN_TRY(measure_headroom());
    if (needed > headroom_bytes_) {
      return Error(Code::kNoSpace, "the disk is full", "free some space; nothing was changed");
    }
  }
  reserved_bytes_ += needed;
  return Ok{};
}

void Database::listen_for_commits() {
  auto guard = lock();
  if (batch_lock_) batch_lock_->listen();
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
  log_is_moved_ = false;
  close_batch();
  if (batch_lock_) batch_lock_->tell_listeners();
  if (observer_ != nullptr) observer_->after_commit();
  return Ok{};
}

void Database::close_batch() {
  batch_open_ = false;
  reserved_bytes_ = 0;
  headroom_bytes_ = 0;
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
