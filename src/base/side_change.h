// For what a thread changes only to prepare an operation, or around one that failed.
#pragma once

namespace warren {

// While one exists, the transactions of its thread are not those of the operation that the thread carries out: whatever
// belongs to the operation, as its event in the audit trail, is not stored with them. They nest.
class SideChange {
 public:
  SideChange() { ++depth_; }
  ~SideChange() { --depth_; }
  SideChange(const SideChange&) = delete;
  SideChange& operator=(const SideChange&) = delete;

  static bool is_active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace warren
