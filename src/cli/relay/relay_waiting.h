// Waiting for what a relay does, by commands that go on until something has happened or somebody ends them.
#pragma once

#include <chrono>

#include "base/result.h"
#include "os/dir_watch.h"
#include "os/signals.h"

namespace warren::cli {

// From open() on, SIGINT and SIGTERM are waited for instead of ending the process.
class RelayWaiting {
 public:
  // For changes of names and contents in the directory. Where it cannot be watched, wait() looks often instead.
  static Result<RelayWaiting> open(int dir);

  enum class Woken { kLook, kEnd };
  // Until something may have changed, for a second at most; or until it is to end.
  Result<Woken> wait(std::chrono::nanoseconds at_most = std::chrono::seconds(1));

 private:
  RelayWaiting(Signals signals, DirWatch watch, bool is_watching)
      : signals_(std::move(signals)), watch_(std::move(watch)), is_watching_(is_watching) {}

  Signals signals_;
  DirWatch watch_;
  bool is_watching_;
};

}  // namespace warren::cli
