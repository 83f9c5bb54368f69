#include "db/wal_signals.h"

#include <optional>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

namespace warren {
namespace {

// Far beyond any byte that a log can have.
constexpr off_t kBatchByte = off_t{1} << 62;
constexpr off_t kKnockByte = kBatchByte + 1;
constexpr off_t kListenByte = kBatchByte + 2;
constexpr off_t kUseByte = kBatchByte + 3;
constexpr off_t kMarkByte = kBatchByte + 4;
constexpr off_t kSeatBytes = kBatchByte + 1024;  // plus the number of the seat
constexpr std::uint32_t kSeats = 65'536;
constexpr off_t kWriterCounts = off_t{1} << 61;  // plus the base
constexpr off_t kReaderCounts = kWriterCounts + WalSignals::kCountBases;

constexpr std::chrono::microseconds kStep{50};
constexpr std::chrono::milliseconds kKnockTimeout{1000};  // ten times what a batch may last

// These locks belong to the open file description, not the process: two connections of one process are separate.
bool set_lock(int fd, short kind, off_t byte) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

// The first byte of some lock of another connection in a range.
std::optional<off_t> find_lock_by_other(int fd, off_t begin, off_t length) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = begin;
  lock.l_len = length;
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_start;
}

// Not open if there is none, or if it is not a regular file: opening a pipe could wait for ever.
Fd open_log(const std::string& path, int flags) {
  Fd log(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  bool is_log = log.is_open() && ::fstat(log.get(), &info) == 0 && S_ISREG(info.st_mode);
  return is_log ? std::move(log) : Fd();
}

bool is_locked_by_other(int fd, off_t byte) { return find_lock_by_other(fd, byte, 1).has_value(); }

}  // namespace

std::unique_ptr<WalSignals> WalSignals::open(const std::string& wal_path) {
  Fd wal = open_log(wal_path, O_RDWR);
  if (!wal.is_open()) return nullptr;
  set_lock(wal.get(), F_RDLCK, kUseByte);
  return std::unique_ptr<WalSignals>(new WalSignals(std::move(wal)));
}

// SQLite does not lock the log, so closing a descriptor of it is safe.
bool WalSignals::is_in_use(const std::string& wal_path) {
  Fd wal = open_log(wal_path, O_RDONLY);
  return wal.is_open() && is_locked_by_other(wal.get(), kUseByte);
}

bool WalSignals::lock_mark() {
  for (auto waited = std::chrono::microseconds(0); waited < kKnockTimeout; waited += kStep) {
    if (set_lock(wal_.get(), F_WRLCK, kMarkByte)) return true;
    std::this_thread::sleep_for(kStep);
  }
  return false;
}

void WalSignals::unlock_mark() { set_lock(wal_.get(), F_UNLCK, kMarkByte); }

void WalSignals::lock_batch() { set_lock(wal_.get(), F_WRLCK, kBatchByte); }

void WalSignals::unlock_batch() { set_lock(wal_.get(), F_UNLCK, kBatchByte); }

bool WalSignals::is_knocked() { return is_locked_by_other(wal_.get(), kKnockByte); }

bool WalSignals::is_batch_locked_elsewhere() {
  checked_at_ = std::chrono::steady_clock::now();
  return is_locked_by_other(wal_.get(), kBatchByte);
}

bool WalSignals::is_batch_locked_elsewhere_lately() {
  constexpr std::chrono::microseconds kCheckInterval{200};
  auto now = std::chrono::steady_clock::now();
  if (now - checked_at_ < kCheckInterval) return false;
  checked_at_ = now;
  return is_locked_by_other(wal_.get(), kBatchByte);
}

void WalSignals::knock() {
  constexpr std::chrono::milliseconds kKnockInterval{100};
  auto now = std::chrono::steady_clock::now();
  if (is_knocking_ && now - knocked_at_ < kKnockInterval) return;
  if (!is_knocking_) set_lock(wal_.get(), F_RDLCK, kKnockByte);
  is_knocking_ = true;
  knocked_at_ = now;
  ::futimens(wal_.get(), nullptr);  // wakes the other process's file watch
}

bool WalSignals::knock_and_wait() {
  knock();
  for (auto waited = std::chrono::microseconds(0); waited < kKnockTimeout; waited += kStep) {
    if (!is_locked_by_other(wal_.get(), kBatchByte)) return true;
    std::this_thread::sleep_for(kStep);
  }
  return false;
}

void WalSignals::listen() { set_lock(wal_.get(), F_RDLCK, kListenByte); }

bool WalSignals::has_listeners() { return is_locked_by_other(wal_.get(), kListenByte); }

void WalSignals::notify_listeners() {
  if (has_listeners()) ::futimens(wal_.get(), nullptr);
}

std::uint32_t WalSignals::take_seat() {
  for (std::uint32_t seat = 1; seat_ == 0 && seat <= kSeats; ++seat) {
    if (set_lock(wal_.get(), F_WRLCK, kSeatBytes + seat)) seat_ = seat;
  }
  return seat_;
}

void WalSignals::leave_seat() {
  if (seat_ != 0) set_lock(wal_.get(), F_UNLCK, kSeatBytes + seat_);
  seat_ = 0;
}

std::uint32_t WalSignals::find_seat_after(std::uint32_t seat) {
  off_t begin = kSeatBytes + seat + 1;
  off_t end = kSeatBytes + kSeats + 1;
  std::optional<off_t> lowest;
  // The kernel returns any of the locks in the range, so what is below it is searched too.
  while (begin < end) {
    std::optional<off_t> found = find_lock_by_other(wal_.get(), begin, end - begin);
    if (!found) break;
    lowest = end = *found;
  }
  return lowest ? static_cast<std::uint32_t>(*lowest - kSeatBytes) : 0;
}

std::optional<std::int64_t> WalSignals::find_count_base() {
  for (off_t begin : {kWriterCounts, kReaderCounts}) {
    if (auto found = find_lock_by_other(wal_.get(), begin, kCountBases)) return *found - begin;
  }
  return std::nullopt;
}

void WalSignals::hold_count_base(std::int64_t base, CountUse use) {
  set_lock(wal_.get(), F_RDLCK, (use == CountUse::kWrite ? kWriterCounts : kReaderCounts) + base);
}

bool WalSignals::has_other_writer() { return find_lock_by_other(wal_.get(), kWriterCounts, kCountBases).has_value(); }

void WalSignals::stop_knocking() {
  if (is_knocking_) set_lock(wal_.get(), F_UNLCK, kKnockByte);
  is_knocking_ = false;
}

}  // namespace warren
