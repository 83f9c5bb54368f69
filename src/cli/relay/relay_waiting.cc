#include "cli/relay/relay_waiting.h"

#include <algorithm>
#include <csignal>

namespace warren::cli {
namespace {

constexpr std::chrono::milliseconds kSafety{1000};  // in case an event is lost
constexpr std::chrono::milliseconds kPause{2};      // between returns, to limit the rate
constexpr std::chrono::milliseconds kPoll{50};      // if the directory cannot be watched

}  // namespace

Result<RelayWaiting> RelayWaiting::open(int dir) {
  Signals signals = WARREN_TRY(Signals::take({SIGINT, SIGTERM}));
  DirWatch watch = WARREN_TRY(DirWatch::open());
  bool is_watching = watch.add(dir).has_value();
  return RelayWaiting(std::move(signals), std::move(watch), is_watching);
}

Result<RelayWaiting::Woken> RelayWaiting::wait(std::chrono::nanoseconds at_most) {
  auto rounded_up = std::chrono::ceil<std::chrono::milliseconds>(at_most);
  int signal = WARREN_TRY(signals_.wait(watch_.fd(), std::min(rounded_up, is_watching_ ? kSafety : kPoll)));
  if (signal == 0) signal = WARREN_TRY(signals_.wait(-1, std::min(rounded_up, kPause)));
  for (const DirWatch::Event& event : watch_.take()) {
    if (event.is_over) is_watching_ = false;
  }
  return signal == 0 ? Woken::kLook : Woken::kEnd;
}

}  // namespace warren::cli
