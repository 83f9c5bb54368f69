// For a change that its caller cannot repeat.
#pragma once

namespace warren {

// While one exists, a change by its thread is accepted though the disk has no room for it, and stays in memory until it
// can be stored: up to limits::kMustKeepBytes, and only in a store that collects changes in batches. The kernel gives
// up a page of a memory map when it was refused, and no program waits for the answer. They do not nest.
class MustKeep {
 public:
  MustKeep() { is_on_ = true; }
  ~MustKeep() { is_on_ = false; }
  MustKeep(const MustKeep&) = delete;
  MustKeep& operator=(const MustKeep&) = delete;

  static bool is_on() { return is_on_; }

 private:
  static inline thread_local bool is_on_ = false;
};

}  // namespace warren
