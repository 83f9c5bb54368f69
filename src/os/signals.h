// Signals as something to wait for, instead of something that happens to us.
#pragma once

#include <initializer_list>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Blocks the signals in this thread, and in every thread made from it later. They stay blocked for good.
class Signals {
 public:
  static Result<Signals> take(std::initializer_list<int> signals);

  // The next of the signals, or 0 when `other_fd` becomes readable first.
  Result<int> wait(int other_fd);

 private:
  explicit Signals(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace warren
