// Signals delivered through a descriptor, to wait for, instead of to a handler.
#pragma once

#include <chrono>
#include <csignal>
#include <initializer_list>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Restores the signals that were blocked in this thread when it was made: for a Signals that does not last as long as
// the program. Make it first.
class SignalMask {
 public:
  SignalMask();
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  sigset_t before_;
};

// Blocks the signals in this thread and in every thread it starts later. They stay blocked.
class Signals {
 public:
  static Result<Signals> take(std::initializer_list<int> signals);

  // Returns the next of the signals, or 0 if `other_fd` becomes readable first or the time is up. No `other_fd`: -1.
  Result<int> wait(int other_fd, std::chrono::milliseconds at_most = std::chrono::milliseconds(-1));

 private:
  explicit Signals(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

// While one exists, the signals wait, and are delivered when it ends. For this thread and those it starts.
class DeferredSignals {
 public:
  explicit DeferredSignals(std::initializer_list<int> signals);

 private:
  SignalMask before_;
};

}  // namespace warren
