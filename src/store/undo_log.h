// How to take back the change that is running in a batch, as far as it is kept in memory.
//
// A change is usually refused before it has changed anything. If it fails later (a page of the file cannot be read,
// say), its SQL statements are taken back by the database, and the rows that it changed in memory by these steps.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace warren {

class UndoLog {
 public:
  void begin() {
    steps_.clear();
    is_active_ = true;
  }
  void end() {
    steps_.clear();
    is_active_ = false;
  }

  bool is_active() const { return is_active_; }
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }  // only while it is active

  void undo() {
    is_active_ = false;
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) (*step)();
    steps_.clear();
  }

 private:
  bool is_active_ = false;
  std::vector<std::function<void()>> steps_;
};

}  // namespace warren
