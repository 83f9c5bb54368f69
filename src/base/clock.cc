#include "base/clock.h"

#include <ctime>

namespace warren {

Timestamp SystemClock::now() {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return {.seconds = ts.tv_sec, .nanoseconds = static_cast<std::int32_t>(ts.tv_nsec)};
}

namespace {

std::int64_t read_ns(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace

std::int64_t SystemClock::monotonic_ns() { return read_ns(CLOCK_MONOTONIC); }

std::int64_t SystemClock::boottime_ns() { return read_ns(CLOCK_BOOTTIME); }

}  // namespace warren
