// How processes that have one agent open tell each other about batches.
//
// A process that holds several changes back in one open transaction (a batch) locks a byte of the -wal
// file. Whoever wants to see or write the newest state looks at that byte first; if it is locked, they
// knock, by locking a second byte and touching the file, and wait until the batch is committed. Whoever
// keeps copies of what is in the file (a mount: the kernel's) locks a third byte; while somebody does,
// every commit ends with touching the file. (That the log is written to is not enough to know: others see
// a commit only some time after.) Locks go away with their process, so nothing is left over from a crash.
// SQLite never locks the -wal file itself. The whole protocol: docs/design/db.md.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// One per connection; used under its database's lock, but for sync().
class BatchLock {
 public:
  // Null when there is no -wal file or it may not be written: then there is nobody to tell.
  static std::unique_ptr<BatchLock> open(const std::string& wal_path);

  // Of the process with the batch.
  void hold();
  void let_go();
  // Gives those who knock their turn: returns when nobody does, or after a while.
  void make_way();

  // Of the others.
  bool is_held_by_other();
  // Waits until the other's batch is committed. False if that takes too long: it hangs, or was stopped.
  bool knock_and_wait();
  void stop_knocking();

  // For who wants to hear of commits, and for who makes them.
  void listen();
  bool has_listeners();
  void tell_listeners();

  int wal_fd() const { return wal_.get(); }

 private:
  explicit BatchLock(Fd wal) : wal_(std::move(wal)) {}

  Fd wal_;
  bool knocks_ = false;
};

}  // namespace warren
