// Background threads that run jobs from a queue.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.h"

namespace warren {

// Runs jobs in the order of submission, in one thread unless the options allow more. A thread starts when a job is
// submitted and no thread is idle.
//
// Thread-safe, except that stop() and the destructor are for the owner, outside of jobs. Make the worker the last
// member of its class: then no job outlives what it uses.
class Worker {
 public:
  using Job = std::function<void()>;  // must not throw

  enum class Priority { kNormal, kLow };  // kLow: see give_way()
  struct Options {
    Priority priority = Priority::kNormal;
    std::size_t threads_max = 1;
  };
  Worker() : Worker(Options{}) {}
  explicit Worker(Options options) : options_(options) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // A job with a delay lets others pass until it is due, in real time. kLimit: no thread is running and none can be
  // started; the job is dropped. While the worker stops, every new job is dropped.
  Status submit(Job job, std::chrono::nanoseconds delay = {});

  // Drops jobs that have not started and waits for those that have.
  void stop();

  // For long jobs, to end early.
  const std::atomic<bool>& is_stopping() const { return is_stopping_; }

  // For jobs. Returns early, with false, when the worker stops.
  bool sleep_for(std::chrono::nanoseconds duration);

  // For jobs. Also returns early, with true, after wake(), even if that was called before.
  bool sleep_until_woken(std::chrono::nanoseconds duration_max);
  void wake();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Pending {
    TimePoint due;
    Job job;
  };

  Status start_thread();  // under mutex_
  void run();
  std::optional<Job> next_job(std::unique_lock<std::mutex>& lock);  // nothing: the worker stops

  Options options_;
  std::atomic<bool> is_stopping_ = false;  // changed under mutex_
  std::mutex mutex_;
  std::condition_variable job_added_;
  std::condition_variable woken_;
  std::deque<Pending> jobs_;  // under mutex_, like all below
  std::size_t idle_ = 0;      // threads waiting for a job
  bool is_woken_ = false;     // wake() was called and has not ended a sleep yet
  std::vector<std::thread> threads_;
};

}  // namespace warren
