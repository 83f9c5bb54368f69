#include "db/batch.h"

#include <algorithm>
#include <cerrno>

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/limits.h"
#include "db/statement.h"
#include "db/wal_signals.h"
#include "os/error.h"

namespace warren {
namespace {

// Pages that a change touches besides its data: a row, its entry, their indexes.
constexpr std::uint64_t kReservedPerChange = 12'288;

constexpr std::uint64_t kKeptFree = std::uint64_t{1} << 20;          // by usual changes, for removals
constexpr std::uint64_t kKeptFreeAtLast = std::uint64_t{128} << 10;  // by removals

constexpr std::uint64_t kUnitBytes = std::uint64_t{2} << 20;  // that a unit may need

constexpr std::chrono::nanoseconds kRetryAfter = std::chrono::seconds(1);  // of a commit that failed

using SteadyTime = std::chrono::steady_clock::time_point;

std::int64_t nanoseconds(SteadyTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

void Batch::opened() {
  is_open_ = true;
  bytes_ = 0;
  // Another mount shows our changes and must not lag: this batch ends with its first change.
  end_requested_ = signals_ != nullptr && signals_->has_listeners();
  redo_.clear();
  due_ns_ = nanoseconds(std::chrono::steady_clock::now() + limits::kBatchTime);
  if (signals_ != nullptr) signals_->lock_batch();
}

void Batch::closed() {
  is_open_ = false;
  drop_reservations();
  without_room_bytes_ = 0;
  redo_.clear();
  failure_.reset();
  failures_ = 0;
  has_failed_ = false;
  due_ns_ = 0;
  if (signals_ != nullptr) signals_->unlock_batch();
}

void Batch::failed(const Error& why) {
  failure_ = why;
  ++failures_;
  has_failed_ = true;
  end_requested_ = false;
  due_ns_ = nanoseconds(std::chrono::steady_clock::now() + kRetryAfter);
}

bool Batch::is_due() const {
  bool is_large = bytes_ >= limits::kBatchBytes && !failure_;
  return end_requested_ || is_large || nanoseconds(std::chrono::steady_clock::now()) >= due_ns_;
}

std::optional<SteadyTime> Batch::due_at() const {
  std::int64_t at = due_ns_;
  if (at == 0) return std::nullopt;
  return SteadyTime(std::chrono::duration_cast<SteadyTime::duration>(std::chrono::nanoseconds(at)));
}

void Batch::note_kept_back(std::uint64_t bytes) {
  bytes_ += bytes;
  ++kept_back_;
}

void Batch::drop_reservations() {
  reserved_bytes_ = 0;
  headroom_bytes_ = 0;
}

bool Batch::keep_without_room(std::uint64_t bytes) {
  if (bytes > limits::kMustKeepBytes - without_room_bytes_) return false;
  without_room_bytes_ += bytes;
  return true;
}

bool Batch::is_tight() const {
  bool is_measured = headroom_bytes_ > 0;
  return is_open_ && is_measured && reserved_bytes_ + kUnitBytes > headroom_bytes_;
}

Result<bool> Batch::reserve(std::uint64_t bytes, Room room, const LogState& log, Statement& free_page_count) {
  std::uint64_t needed = bytes + bytes / 8 + kReservedPerChange;
  std::uint64_t not_for_us = room == Room::kUsual && measured_for_ == Room::kLast ? kKeptFree : 0;
  if (reserved_bytes_ + needed + not_for_us > headroom_bytes_) {
    headroom_bytes_ = WARREN_TRY(measure_headroom(room, log, free_page_count));
    measured_for_ = room;
    if (reserved_bytes_ + needed > headroom_bytes_) return false;
  }
  reserved_bytes_ += needed;
  return true;
}

// The bytes that the batch may reserve. Each is written to the log, which reuses the space it already has, and again
// to the file at a checkpoint, which uses free pages first. Ordinary changes leave a part of the disk for removals.
Result<std::uint64_t> Batch::measure_headroom(Room room, const LogState& log, Statement& free_page_count) const {
  auto kept_free = static_cast<std::int64_t>(room == Room::kUsual ? kKeptFree : kKeptFreeAtLast);
  constexpr std::int64_t kStep = std::int64_t{64} << 20;  // others fill the disk too: measure again after this much
  std::int64_t limit = static_cast<std::int64_t>(reserved_bytes_) + kStep;
  constexpr std::int64_t kFrameBytes = 24;  // before each page in the log
  struct statvfs disk {};
  struct stat log_file {};
  int fd = signals_->wal_fd();
  if (::fstatvfs(fd, &disk) != 0 || ::fstat(fd, &log_file) != 0)
    return system_error(errno, "measure the free disk space");
  auto available = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize) - kept_free;
  if (available > 4 * limit) return static_cast<std::uint64_t>(limit);
  std::optional<std::int64_t> free_pages = WARREN_TRY(free_page_count.find_integer());
  std::int64_t log_bytes = std::int64_t{log_file.st_blocks} * 512;
  std::int64_t not_in_file = log.is_checkpointed ? 0 : std::min(log.pages * (log.page_bytes + kFrameBytes), log_bytes);
  auto fits = [&](std::int64_t bytes) {
    std::int64_t for_log = std::max<std::int64_t>(0, bytes - (log_bytes - not_in_file));
    std::int64_t for_file = std::max<std::int64_t>(0, not_in_file + bytes - free_pages.value_or(0) * log.page_bytes);
    return for_log + for_file <= available;
  };
  if (fits(limit)) return static_cast<std::uint64_t>(limit);
  std::int64_t most = 0;
  for (std::int64_t step = limit; step >= log.page_bytes; step /= 2) {
    if (fits(most + step)) most += step;
  }
  return static_cast<std::uint64_t>(most);
}

}  // namespace warren
