// Moves the log of a SQLite ledger into its file, beside the thread that commits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "db/database.h"

namespace warren::relay {

// Moving a log of 16 MiB takes 30 ms, in which it grows on. So a thread with a connection of its own moves it, again
// and again until little is left. The next commit moves that rest before it begins: then the log starts over.
class LogMover {
 public:
  explicit LogMover(std::string path) : path_(std::move(path)) {}
  ~LogMover();

  void start();      // unless it is at work, or waits for take_over()
  bool take_over();  // true, once for each start: little is left, and the caller moves it
  bool is_at_work() const { return state_ != State::kResting; }  // till then: the less is added, the less is left

 private:
  enum class State { kResting, kAsked, kNearlyDone };

  void work();
  void move();

  std::string path_;
  std::unique_ptr<Database> database_;  // of the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::atomic<State> state_ = State::kResting;
  std::thread thread_;
};

}  // namespace warren::relay
