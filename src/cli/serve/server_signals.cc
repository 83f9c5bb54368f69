#include "cli/serve/server_signals.h"

#include <cerrno>
#include <csignal>

#include <sys/eventfd.h>

#include "os/error.h"

namespace warren::cli {

ServerSignals::ServerSignals(Signals signals, Fd stop, Fd ended)
    : signals_(std::move(signals)), stop_(std::move(stop)), ended_(std::move(ended)) {}

Result<std::unique_ptr<ServerSignals>> ServerSignals::take() {
  Signals signals = WARREN_TRY(Signals::take({SIGINT, SIGTERM, SIGUSR1}));
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  Fd ended(::eventfd(0, EFD_CLOEXEC));
  if (!stop.is_open() || !ended.is_open()) return system_error(errno, "make an event");
  return std::unique_ptr<ServerSignals>(new ServerSignals(std::move(signals), std::move(stop), std::move(ended)));
}

ServerSignals::~ServerSignals() {
  ::eventfd_write(ended_.get(), 1);
  if (listener_.joinable()) listener_.join();
}

void ServerSignals::listen(std::function<void()> take_checkpoints, std::function<void()> on_stop) {
  listener_ = std::thread([this, take = std::move(take_checkpoints), stop = std::move(on_stop)] {
    for (;;) {
      Result<int> got = signals_.wait(ended_.get());
      if (got.ok() && *got == 0) return;
      if (!got.ok() || *got != SIGUSR1) break;
      take();
    }
    if (stop) stop();
    ::eventfd_write(stop_.get(), 1);
  });
}

}  // namespace warren::cli
