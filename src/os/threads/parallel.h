// Independent pieces of work, spread over the processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/result.h"

namespace warren {

inline constexpr std::size_t kParallelThreads = 64;
inline constexpr std::size_t kRequestsAtOnce = 8;  // threads for work that mostly waits for others

inline std::size_t count_processors() { return std::max<std::size_t>(std::thread::hardware_concurrency(), 1); }

// An exception must not leave a thread.
template <class Work>
Status try_work(const Work& work, std::size_t i) {
  try {
    return work(i);
  } catch (const std::bad_alloc&) {
    return Error(Code::kTooLarge, "there is not enough memory");
  }
}

// Calls `work` for 0 … count - 1, in several threads of which this is one, until all are done or one fails. Returns the
// first error.
template <class Work>
Status for_each_parallel(std::size_t count, const Work& work, std::size_t threads_max = count_processors()) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::optional<Error> failure;
  auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      Status done = try_work(work, i);
      if (done.ok()) continue;
      std::lock_guard lock(mutex);
      if (!failure) failure = done.error();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min({count, threads_max, kParallelThreads}); ++i) {
    try {
      threads.emplace_back(run);
    } catch (const std::system_error&) {  // no more threads: those that run do the work
      break;
    }
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (failure) return *std::move(failure);
  return Ok{};
}

}  // namespace warren
