// A few threads for work that would keep the next request waiting.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace warren {

// Tasks run in any order, several at once. The destructor runs all remaining tasks first.
class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // under mutex_
  bool ending_ = false;                      // under mutex_
  std::vector<std::thread> threads_;
};

}  // namespace warren
