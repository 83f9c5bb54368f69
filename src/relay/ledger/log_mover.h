// Moves the log of a SQLite ledger into its file, in a separate thread from commits.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "db/database.h"
#include "os/threads/worker.h"

namespace warren::relay {

// Moving a log of 16 MiB takes 30 ms, during which it keeps growing. So a thread with its own connection moves it
// repeatedly until little is left. The next transaction moves the rest before it begins, and the log starts over.
class LogMover {
 public:
  explicit LogMover(std::string path) : path_(std::move(path)) {}

  void start();      // unless it is running, or waits for take_over()
  bool take_over();  // true once for each start: little is left, which the caller moves
  // True until take_over(). The less is committed meanwhile, the less is left.
  bool is_at_work() const { return state_ != State::kResting; }

 private:
  enum class State { kResting, kAsked, kNearlyDone };

  void move();

  std::string path_;
  std::unique_ptr<Database> database_;  // used by the thread only
  std::atomic<State> state_ = State::kResting;
  Worker worker_{{.priority = Worker::Priority::kLow}};
};

}  // namespace warren::relay
