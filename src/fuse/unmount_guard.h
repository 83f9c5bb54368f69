// Unmounts when the process that serves the mount is killed.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// A small process of its own that waits for ours to end in any way. Start it before any thread is started and before
// mounting, so that it holds nothing of either.
class UnmountGuard {
 public:
  static Result<std::unique_ptr<UnmountGuard>> start(const std::string& dir);

 private:
  explicit UnmountGuard(Fd alive) : alive_(std::move(alive)) {}
  Fd alive_;  // the guard sees its other end close
};

}  // namespace warren
