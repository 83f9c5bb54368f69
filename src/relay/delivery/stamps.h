// The times in the names of inbox files: each later than all before, whatever the clock says.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace warren::relay {

class Stamps {
 public:
  explicit Stamps(Clock& clock) : clock_(clock) {}

  std::int64_t next_ns() {
    Timestamp now = clock_.now();
    newest_ns_ = std::max(newest_ns_ + 1, now.seconds * 1'000'000'000 + now.nanoseconds);
    return newest_ns_;
  }
  std::int64_t newest_ns() const { return newest_ns_; }
  void note_used(std::int64_t stamp_ns) { newest_ns_ = std::max(newest_ns_, stamp_ns); }

 private:
  Clock& clock_;
  std::int64_t newest_ns_ = 0;
};

}  // namespace warren::relay
