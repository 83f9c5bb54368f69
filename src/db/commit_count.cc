// The part of Database that numbers commits (docs/design/history.md).
//
// SQLite counts the commits of all programs in the index of the log, from 0 when the first connection opens the file
// until the last one closes it. Connections of ours share a base: the number of that first commit. It is the position
// of a lock, so that it disappears with the processes. From one log to the next it is kept in an extended attribute of
// the file, the seal, together with the file's size and time: whoever writes to the file between two connections of
// ours changes its time.
#include <charconv>
#include <ctime>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <fmt/format.h>
#include <sqlite3.h>

#include "db/database.h"
#include "db/transaction.h"
#include "db/wal_signals.h"

namespace warren {
namespace {

constexpr const char* kSealName = "user.warren.commits";

// "NUMBER SECONDS.NANOSECONDS SIZE"
std::string seal_text(std::int64_t number, const struct stat& file) {
  return fmt::format("{} {}.{:09} {}", number, file.st_mtim.tv_sec, file.st_mtim.tv_nsec, file.st_size);
}

std::int64_t random_base() {
  std::random_device random;
  auto bits = (std::uint64_t{random()} << 32) | random();
  return static_cast<std::int64_t>(bits % (WalSignals::kCountBases / 2));
}

}  // namespace

void Database::number_commits() {
  auto guard = lock();
  if (!signals_ || log_index_ == nullptr || count_base_) return;
  bool is_locked = signals_->lock_mark();  // two that open it at once must find the same
  std::optional<std::int64_t> base = signals_->find_count_base();
  if (!base) base = find_sealed_number();
  if (!base || *base < 0 || *base >= WalSignals::kCountBases / 2) base = random_base();
  signals_->hold_count_base(*base, read_only_ ? WalSignals::CountUse::kRead : WalSignals::CountUse::kWrite);
  if (is_locked) signals_->unlock_mark();
  count_base_ = base;
}

// If nothing was written to the file since the seal, and no log was left, then all later commits are in this log, where
// SQLite counts them from 0.
std::optional<std::int64_t> Database::find_sealed_number() const {
  if (log_had_commits_) return std::nullopt;
  const char* path = sqlite3_db_filename(handle_, "main");
  char text[128];
  ssize_t length = ::getxattr(path, kSealName, text, sizeof text);
  struct stat file {};
  if (length <= 0 || ::stat(path, &file) != 0) return std::nullopt;
  std::string_view seal(text, static_cast<std::size_t>(length));
  std::int64_t number = 0;
  if (std::from_chars(seal.data(), seal.data() + seal.size(), number).ec != std::errc()) return std::nullopt;
  if (seal != seal_text(number, file)) return std::nullopt;
  return number;
}

std::optional<std::int64_t> Database::next_commit_number() const {
  std::optional<std::uint32_t> commits = count_commits();
  if (!count_base_ || !commits) return std::nullopt;
  return *count_base_ + *commits;
}

void Database::seal_commits() {
  auto guard = lock();
  if (!count_base_ || read_only_ || depth_ > 0 || signals_->has_other_writer()) return;
  if (!end_batch().ok() || batch_.is_open() || !check_name().ok() || !begin_to_write().ok()) return;
  seal_under_lock().ignore("the next checkpoint looks at everything");
  rollback_.run().ignore("nothing was changed");
}

// Nobody can commit meanwhile. Once the whole log is in the file, the file does not change unless somebody does.
Status Database::seal_under_lock() {
  const char* path = sqlite3_db_filename(handle_, "main");
  {
    // A connection cannot do it within its own transaction.
    auto other =
        WARREN_TRY(Database::open(path, {.mode = OpenMode::kReadWrite, .find_key = key_finder(), .vfs = nullptr}));
    WARREN_TRY(other->checkpoint());
    if (!other->log_is_checkpointed_) return Error(Code::kBusy, "another process reads an older state");
  }
  // The kernel's times have steps of milliseconds. With one in the past, every later write gives another.
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::random_device random;
  std::timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                            {.tv_sec = now.tv_sec - 1, .tv_nsec = static_cast<long>(random() % 1'000'000'000)}};
  if (times[1].tv_nsec > now.tv_nsec) --times[1].tv_sec;
  struct stat file {};
  if (::utimensat(AT_FDCWD, path, times, 0) != 0 || ::stat(path, &file) != 0) {
    return Error(Code::kIo, "cannot set the file's time");
  }
  std::string seal = seal_text(*next_commit_number(), file);
  if (::setxattr(path, kSealName, seal.data(), seal.size(), 0) != 0) {
    return Error(Code::kUnsupported, "the filesystem has no extended attributes");
  }
  return Ok{};
}

}  // namespace warren
