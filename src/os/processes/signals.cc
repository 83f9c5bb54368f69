#include "os/processes/signals.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/signalfd.h>

#include "os/error.h"

namespace warren {

namespace {

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : signals) ::sigaddset(&set, signal);
  return set;
}

}  // namespace

SignalMask::SignalMask() { ::pthread_sigmask(SIG_SETMASK, nullptr, &before_); }

SignalMask::~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Result<Signals> Signals::take(std::initializer_list<int> signals) {
  sigset_t set = set_of(signals);
  if (int failed = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); failed != 0)
    return system_error(failed, "block signals");
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, "signalfd");
  return Signals(std::move(fd));
}

Result<int> Signals::wait(int other_fd, std::chrono::milliseconds at_most) {
  std::array<pollfd, 2> both{{{fd_.get(), POLLIN, 0}, {other_fd, POLLIN, 0}}};
  while (::poll(both.data(), both.size(), static_cast<int>(at_most.count())) < 0) {
    if (errno != EINTR) return system_error(errno, "poll");
  }
  if ((both[0].revents & POLLIN) == 0) return 0;
  signalfd_siginfo info{};
  WARREN_TRY(read_some(fd_.get(), {reinterpret_cast<std::byte*>(&info), sizeof info}));
  return static_cast<int>(info.ssi_signo);
}

DeferredSignals::DeferredSignals(std::initializer_list<int> signals) {
  sigset_t set = set_of(signals);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace warren
