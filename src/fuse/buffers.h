// A pool of request buffers, so that a megabyte is not mapped anew for each request.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "fuse/channel.h"

namespace warren {

// Thread-safe.
class Buffers {
 public:
  Buffer take() {
    std::lock_guard guard(mutex_);
    if (free_.empty()) return Buffer();
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  void give_back(Buffer buffer) {
    std::lock_guard guard(mutex_);
    if (free_.size() < kKept) free_.push_back(std::move(buffer));
  }

 private:
  static constexpr std::size_t kKept = 8;

  std::mutex mutex_;
  std::vector<Buffer> free_;  // under mutex_
};

}  // namespace warren
