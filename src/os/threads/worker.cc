#include "os/threads/worker.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "os/threads/turn.h"

namespace warren {

Status Worker::submit(Job job, std::chrono::nanoseconds delay) {
  {
    std::lock_guard lock(mutex_);
    if (is_stopping_) return Ok{};
    jobs_.push_back({std::chrono::steady_clock::now() + delay, std::move(job)});
    if (jobs_.size() > idle_ && threads_.size() < options_.threads_max) {
      Status started = start_thread();
      if (!started.ok() && threads_.empty()) {
        jobs_.pop_back();
        return started;
      }
    }
  }
  job_added_.notify_one();
  return Ok{};
}

Status Worker::start_thread() {
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error& failure) {
    return Error(Code::kLimit, fmt::format("cannot start a thread: {}", failure.code().message()));
  }
  return Ok{};
}

void Worker::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    threads.swap(threads_);
  }
  job_added_.notify_all();
  woken_.notify_all();
  for (std::thread& thread : threads) thread.join();
  jobs_.clear();
}

bool Worker::sleep_for(std::chrono::nanoseconds duration) {
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, duration, [this] { return is_stopping_.load(); });
  return !is_stopping_;
}

bool Worker::sleep_until_woken(std::chrono::nanoseconds duration_max) {
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, duration_max, [this] { return is_stopping_ || is_woken_; });
  is_woken_ = false;
  return !is_stopping_;
}

void Worker::wake() {
  {
    std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  woken_.notify_all();
}

std::optional<Worker::Job> Worker::next_job(std::unique_lock<std::mutex>& lock) {
  while (!is_stopping_) {
    TimePoint now = std::chrono::steady_clock::now();
    auto due = std::find_if(jobs_.begin(), jobs_.end(), [&](const Pending& one) { return one.due <= now; });
    if (due != jobs_.end()) {
      Job job = std::move(due->job);
      jobs_.erase(due);
      if (!jobs_.empty()) job_added_.notify_one();  // another thread watches over the rest meanwhile
      return job;
    }
    auto first =
        std::min_element(jobs_.begin(), jobs_.end(), [](const Pending& a, const Pending& b) { return a.due < b.due; });
    ++idle_;
    if (first == jobs_.end()) job_added_.wait(lock);
    else job_added_.wait_until(lock, TimePoint(first->due));
    --idle_;
  }
  return std::nullopt;
}

void Worker::run() {
  if (options_.priority == Priority::kLow) give_way();
  std::unique_lock lock(mutex_);
  while (std::optional<Job> job = next_job(lock)) {
    lock.unlock();
    (*job)();
    job.reset();  // what it holds is released before the next one, and not under the lock
    lock.lock();
  }
}

}  // namespace warren
