// Going on in the background, after telling whoever started us how it went.
#pragma once

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Two processes come out of start(): the one that the user started, which waits for word and ends, and
// its child, which goes on. Call it before any thread is made.
class Daemon {
 public:
  static Result<Daemon> start();

  bool is_child() const { return is_child_; }

  // In the parent: what the child reported. kUnavailable if it ended without a word.
  Status wait();

  // In the child, once. A success also cuts its ties: a session of its own, no terminal, and the root as
  // its working directory, so that it keeps no other filesystem busy.
  void report(const Status& outcome);

 private:
  Daemon(bool is_child, Fd pipe) : is_child_(is_child), pipe_(std::move(pipe)) {}

  bool is_child_;
  Fd pipe_;
};

}  // namespace warren
