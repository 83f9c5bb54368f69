// Waits for changes in a relay's directories, for commands that run until something happens or they are interrupted.
#pragma once

#include <chrono>

#include "base/result.h"
#include "os/files/dir_watch.h"
#include "os/processes/signals.h"

namespace warren::cli {

// From open() on, SIGINT and SIGTERM end wait() instead of the process.
class RelayWaiting {
 public:
  // Watches names and contents in the directory. If it cannot be watched, wait() returns often instead.
  static Result<RelayWaiting> open(int dir);

  enum class Woken { kLook, kEnd };
  // Returns kLook after a possible change, or after a second at most; kEnd after a signal.
  Result<Woken> wait(std::chrono::nanoseconds at_most = std::chrono::seconds(1));

 private:
  RelayWaiting(Signals signals, DirWatch watch, bool is_watching)
      : signals_(std::move(signals)), watch_(std::move(watch)), is_watching_(is_watching) {}

  Signals signals_;
  DirWatch watch_;
  bool is_watching_;
};

}  // namespace warren::cli
