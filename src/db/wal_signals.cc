#include "db/wal_signals.h"

#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

namespace warren {
namespace {

// Far beyond any byte that a log can have.
constexpr off_t kBatchByte = off_t{1} << 62;
constexpr off_t kKnockByte = kBatchByte + 1;
constexpr off_t kListenByte = kBatchByte + 2;

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

bool is_locked_by_other(int fd, off_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace

std::unique_ptr<WalSignals> WalSignals::open(const std::string& wal_path) {
  Fd wal(::open(wal_path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!wal.is_open()) return nullptr;
  return std::unique_ptr<WalSignals>(new WalSignals(std::move(wal)));
}

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

void WalSignals::stop_knocking() {
  if (is_knocking_) set_lock(wal_.get(), F_UNLCK, kKnockByte);
  is_knocking_ = false;
}

}  // namespace warren
