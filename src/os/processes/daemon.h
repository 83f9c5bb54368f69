// Continuing in the background, after reporting the outcome of the start to the process that the user started.
#pragma once

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// start() returns in two processes: the one that the user started, which waits for a report and exits, and its child,
// which continues. Call it before any thread is started.
class Daemon {
 public:
  static Result<Daemon> start();

  bool is_child() const { return is_child_; }

  // In the parent: the outcome that the child reported. kUnavailable if it ended without reporting.
  Status wait();

  // In the child, once. A success also detaches it: a session of its own, no terminal, and / as its working directory,
  // so that it keeps no other filesystem busy.
  void report(const Status& outcome);

 private:
  Daemon(bool is_child, Fd pipe) : is_child_(is_child), pipe_(std::move(pipe)) {}

  bool is_child_;
  Fd pipe_;
};

}  // namespace warren
