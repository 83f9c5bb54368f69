// Time, as a parameter: wall time for timestamps that are stored, monotonic time for durations.
#pragma once

#include <compare>
#include <cstdint>

namespace warren {

// A point in wall time as the agent file stores it. `nanoseconds` is always 0..999999999, even before 1970, where
// `seconds` is negative.
struct Timestamp {
  std::int64_t seconds = 0;
  std::int32_t nanoseconds = 0;

  auto operator<=>(const Timestamp&) const = default;
};

// Thread-safe. Wall time may jump either way; monotonic time never goes back.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp now() = 0;
  virtual std::int64_t monotonic_ns() = 0;
  // As monotonic time, but also passes while the machine is suspended, as wall time does: to tell whether the wall
  // clock was set.
  virtual std::int64_t boottime_ns() { return monotonic_ns(); }

  std::int64_t now_us() {
    Timestamp at = now();
    return at.seconds * 1'000'000 + at.nanoseconds / 1000;
  }
};

class SystemClock final : public Clock {
 public:
  Timestamp now() override;
  std::int64_t monotonic_ns() override;
  std::int64_t boottime_ns() override;
};

}  // namespace warren
