// A clock that stands still until a test moves it.
#pragma once

#include <atomic>

#include "base/clock.h"

namespace warren::testing {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::int64_t start_seconds = 1'700'000'000) : wall_ns_(start_seconds * 1'000'000'000) {}

  Timestamp now() override {
    std::int64_t ns = wall_ns_;
    return {.seconds = ns / 1'000'000'000, .nanoseconds = static_cast<std::int32_t>(ns % 1'000'000'000)};
  }
  std::int64_t monotonic_ns() override { return monotonic_ns_; }
  std::int64_t boottime_ns() override { return monotonic_ns_ + suspended_ns_; }

  void advance_ns(std::int64_t ns) {
    wall_ns_ += ns;
    monotonic_ns_ += ns;
  }
  // The machine sleeps: wall time passes, monotonic time does not.
  void suspend_ns(std::int64_t ns) {
    wall_ns_ += ns;
    suspended_ns_ += ns;
  }
  // Wall time jumps, as when someone sets the clock; monotonic time does not notice.
  void jump_ns(std::int64_t ns) { wall_ns_ += ns; }
  void jump_to(Timestamp at) { wall_ns_ = at.seconds * 1'000'000'000 + at.nanoseconds; }

 private:
  std::atomic<std::int64_t> wall_ns_;
  std::atomic<std::int64_t> monotonic_ns_{1};
  std::atomic<std::int64_t> suspended_ns_{0};
};

}  // namespace warren::testing
