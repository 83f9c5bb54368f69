#include "agent/at_once.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace warren {
namespace {

constexpr std::size_t kAtOnce = 8;  // requests

}  // namespace

Status for_each_at_once(std::size_t count, const std::function<Status(std::size_t)>& one) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  Status first = Ok{};
  auto work = [&] {
    for (std::size_t index = next++; index < count; index = next++) {
      Status done = one(index);
      if (done.ok()) continue;
      std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(done);
      next = count;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t n = 1; n < std::min(count, kAtOnce); ++n) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // with fewer threads it takes longer
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return first;
}

}  // namespace warren
