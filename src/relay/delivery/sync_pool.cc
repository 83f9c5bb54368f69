#include "relay/delivery/sync_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/error.h"

namespace warren::relay {
namespace {

constexpr std::size_t kThreads = 8;  // more did not help

// Starts writing all files before waiting for the first: halves the time for many files.
void start_writing(std::span<const int> files) {
  for (int file : files) ::sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);  // only a hint; fails for directories
}

}  // namespace

SyncPool::SyncPool() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

SyncPool::~SyncPool() {
  {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status SyncPool::sync(std::span<const int> files) {
  if (files.empty()) return Ok{};
  auto batch = std::make_shared<SyncBatch>();
  batch->numbers.assign(files.begin(), files.end());
  add(batch, files.size() - 1);  // the caller syncs as well
  return wait(*batch);
}

std::shared_ptr<SyncBatch> SyncPool::begin(std::vector<Fd> files, std::span<const int> kept) {
  auto batch = std::make_shared<SyncBatch>();
  for (const Fd& file : files) batch->numbers.push_back(file.get());
  batch->numbers.insert(batch->numbers.end(), kept.begin(), kept.end());
  batch->files = std::move(files);
  batch->wakes = true;
  if (batch->numbers.empty()) return batch;
  add(batch, batch->numbers.size());
  if (threads_.empty()) wait(*batch).ignore("whoever asks for it hears of it");
  return batch;
}

void SyncPool::add(const std::shared_ptr<SyncBatch>& batch, std::size_t helpers) {
  if (batch->numbers.size() > 1) start_writing(batch->numbers);
  std::unique_lock lock(mutex_);
  batch->unfinished = batch->numbers.size();
  if (helpers == 0) return;
  batches_.push_back(batch);
  std::size_t woken = std::min(helpers, idle_);
  try {
    for (std::size_t at = woken; at < helpers && threads_.size() < kThreads; ++at) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    // Cannot start another thread: the existing ones sync the files, or the caller of wait().
  }
  lock.unlock();
  for (std::size_t i = 0; i < woken; ++i) work_.notify_one();
}

bool SyncPool::sync_one(SyncBatch& batch, std::unique_lock<std::mutex>& lock) {
  if (batch.next == batch.numbers.size()) return false;
  int file = batch.numbers[batch.next++];
  if (batch.next == batch.numbers.size()) {
    std::erase_if(batches_, [&](const auto& other) { return other.get() == &batch; });
  }
  lock.unlock();
  int failed = ::fsync(file) == 0 ? 0 : errno;
  lock.lock();
  if (failed != 0 && batch.failed == 0) batch.failed = failed;
  if (--batch.unfinished > 0) return true;
  batch.files.clear();
  if (batch.wakes) {
    std::uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof one);  // a full counter is readable anyway
  }
  if (waiting_ > 0) over_.notify_all();
  return true;
}

void SyncPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!batches_.empty()) {
      std::shared_ptr<SyncBatch> batch = batches_.front();
      sync_one(*batch, lock);
    }
    if (is_ending_) return;
    ++idle_;
    work_.wait(lock);
    --idle_;
  }
}

bool SyncPool::is_over(const SyncBatch& batch) {
  std::unique_lock lock(mutex_);
  return batch.unfinished == 0;
}

Status SyncPool::wait(SyncBatch& batch) {
  std::unique_lock lock(mutex_);
  while (sync_one(batch, lock)) {
  }
  ++waiting_;
  over_.wait(lock, [&] { return batch.unfinished == 0; });
  --waiting_;
  if (batch.failed != 0) return system_error(batch.failed, "sync");
  return Ok{};
}

void SyncPool::clear() {
  std::uint64_t count = 0;
  [[maybe_unused]] ssize_t got = ::read(wake_.get(), &count, sizeof count);
}

}  // namespace warren::relay
