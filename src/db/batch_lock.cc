#include "db/batch_lock.h"

#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

namespace warren {
namespace {

// Far behind any byte that a log can have.
constexpr off_t kBatchByte = off_t{1} << 62;
constexpr off_t kKnockByte = kBatchByte + 1;
constexpr off_t kListenByte = kBatchByte + 2;

constexpr std::chrono::microseconds kStep{50};
constexpr std::chrono::milliseconds kPatience{1000};  // ten times what a batch may last
constexpr std::chrono::milliseconds kMakeWay{100};

// These locks belong to the open file, not to the process: two connections of one process count as two.
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

std::unique_ptr<BatchLock> BatchLock::open(const std::string& wal_path) {
  Fd wal(::open(wal_path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!wal.is_open()) return nullptr;
  return std::unique_ptr<BatchLock>(new BatchLock(std::move(wal)));
}

void BatchLock::hold() { set_lock(wal_.get(), F_WRLCK, kBatchByte); }

void BatchLock::let_go() { set_lock(wal_.get(), F_UNLCK, kBatchByte); }

void BatchLock::make_way() {
  for (auto waited = std::chrono::microseconds(0); waited < kMakeWay; waited += kStep) {
    if (!is_locked_by_other(wal_.get(), kKnockByte)) return;
    std::this_thread::sleep_for(kStep);
  }
}

bool BatchLock::is_held_by_other() { return is_locked_by_other(wal_.get(), kBatchByte); }

bool BatchLock::knock_and_wait() {
  set_lock(wal_.get(), F_RDLCK, kKnockByte);
  knocks_ = true;
  ::futimens(wal_.get(), nullptr);  // what the other's watch sees
  for (auto waited = std::chrono::microseconds(0); waited < kPatience; waited += kStep) {
    if (!is_held_by_other()) return true;
    std::this_thread::sleep_for(kStep);
  }
  return false;
}

void BatchLock::listen() { set_lock(wal_.get(), F_RDLCK, kListenByte); }

bool BatchLock::has_listeners() { return is_locked_by_other(wal_.get(), kListenByte); }

void BatchLock::tell_listeners() {
  if (has_listeners()) ::futimens(wal_.get(), nullptr);
}

void BatchLock::stop_knocking() {
  if (knocks_) set_lock(wal_.get(), F_UNLCK, kKnockByte);
  knocks_ = false;
}

}  // namespace warren
