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
  auto request = std::make_shared<SyncRequest>();
  request->numbers.assign(files.begin(), files.end());
  add(request, files.size() - 1);  // the caller syncs as well
  return wait(*request);
}

std::shared_ptr<SyncRequest> SyncPool::begin(std::vector<Fd> files, std::span<const int> borrowed) {
  auto request = std::make_shared<SyncRequest>();
  for (const Fd& file : files) request->numbers.push_back(file.get());
  request->numbers.insert(request->numbers.end(), borrowed.begin(), borrowed.end());
  request->files = std::move(files);
  request->wakes = true;
  if (request->numbers.empty()) return request;
  if (!add(request, request->numbers.size())) wait(*request).ignore("whoever asks for it hears of it");
  return request;
}

bool SyncPool::add(const std::shared_ptr<SyncRequest>& request, std::size_t helpers) {
  if (request->numbers.size() > 1) start_writing(request->numbers);
  std::unique_lock lock(mutex_);
  request->unfinished = request->numbers.size();
  if (helpers == 0) return false;
  requests_.push_back(request);
  std::size_t woken = std::min(helpers, idle_);
  try {
    for (std::size_t at = woken; at < helpers && threads_.size() < kThreads; ++at) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    // Cannot start another thread: the existing ones sync the files, or the caller of wait().
  }
  bool has_threads = !threads_.empty();
  lock.unlock();
  for (std::size_t i = 0; i < woken; ++i) work_.notify_one();
  return has_threads;
}

bool SyncPool::sync_one(SyncRequest& request, std::unique_lock<std::mutex>& lock) {
  if (request.next == request.numbers.size()) return false;
  int file = request.numbers[request.next++];
  if (request.next == request.numbers.size()) {
    std::erase_if(requests_, [&](const auto& other) { return other.get() == &request; });
  }
  lock.unlock();
  int failed = ::fsync(file) == 0 ? 0 : errno;
  lock.lock();
  if (failed != 0 && request.failed == 0) request.failed = failed;
  if (--request.unfinished > 0) return true;
  request.files.clear();
  if (request.wakes) {
    std::uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(wake_.get(), &one, sizeof one);  // a full counter is readable anyway
  }
  if (waiting_ > 0) over_.notify_all();
  return true;
}

void SyncPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!requests_.empty()) {
      std::shared_ptr<SyncRequest> request = requests_.front();
      sync_one(*request, lock);
    }
    if (is_ending_) return;
    ++idle_;
    work_.wait(lock);
    --idle_;
  }
}

bool SyncPool::is_over(const SyncRequest& request) {
  std::unique_lock lock(mutex_);
  return request.unfinished == 0;
}

Status SyncPool::wait(SyncRequest& request) {
  std::unique_lock lock(mutex_);
  while (sync_one(request, lock)) {
  }
  ++waiting_;
  over_.wait(lock, [&] { return request.unfinished == 0; });
  --waiting_;
  if (request.failed != 0) return system_error(request.failed, "sync");
  return Ok{};
}

void SyncPool::clear() {
  std::uint64_t count = 0;
  [[maybe_unused]] ssize_t got = ::read(wake_.get(), &count, sizeof count);
}

}  // namespace warren::relay
