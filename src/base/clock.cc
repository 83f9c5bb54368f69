#include "base/clock.h"

#include <ctime>

namespace warren {

Timestamp SystemClock::now() {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return {.seconds = ts.tv_sec, .nanoseconds = static_cast<std::int32_t>(ts.tv_nsec)};
}

std::int64_t SystemClock::monotonic_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace warren
