// For a thread that must not wait for another process, because others wait for it.
#pragma once

#include <utility>

namespace warren {

// While one exists, a call in its thread that would have to wait for another process's transaction returns kBusy
// instead, with nothing changed. was_hit() then tells this apart from a wait that timed out: the call can be
// repeated in a thread that may wait. They do not nest.
class NoWait {
 public:
  NoWait() {
    is_on_ = true;
    was_hit_ = false;
  }
  ~NoWait() { is_on_ = false; }
  NoWait(const NoWait&) = delete;
  NoWait& operator=(const NoWait&) = delete;

  bool was_hit() const { return was_hit_; }
  // The same for code below it, which does not know whether there is one.
  static bool is_hit() { return is_on_ && was_hit_; }

  // For code that can do without what it would have waited for: the call need not be repeated because of that.
  static void forget_hit() { was_hit_ = false; }

  // For the code that would wait: whether it must not. Counts as a hit.
  static bool forbids_waiting() {
    if (is_on_) was_hit_ = true;
    return is_on_;
  }

 private:
  static inline thread_local bool is_on_ = false;
  static inline thread_local bool was_hit_ = false;
};

}  // namespace warren
