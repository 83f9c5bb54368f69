#include "sandbox/foreground.h"

#include <array>
#include <cerrno>
#include <initializer_list>

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/error.h"

namespace warren {
namespace {

// Also those that would end us before the terminal is as it was.
constexpr std::array kPassedOn{SIGTERM, SIGHUP,  SIGINT,  SIGQUIT,   SIGTSTP, SIGWINCH, SIGUSR1, SIGUSR2,
                               SIGCONT, SIGALRM, SIGPROF, SIGVTALRM, SIGIO,   SIGPWR,   SIGXCPU};
constexpr std::array kAskingToEnd{SIGTERM, SIGHUP};
constexpr std::array kInterrupting{SIGINT, SIGQUIT};
constexpr int kFromKernel = 128;  // si_code of signals from a terminal

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : signals) ::sigaddset(&set, signal);
  return set;
}

// Handing the terminal over from the background would stop us.
void give_terminal(int terminal, pid_t group) {
  sigset_t asks = set_of({SIGTTOU});
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &asks, &before);
  ::tcsetpgrp(terminal, group);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

Result<Foreground> Foreground::prepare() {
  sigset_t set = set_of({SIGCHLD});
  for (int signal : kPassedOn) ::sigaddset(&set, signal);
  if (int failed = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); failed != 0) {
    return system_error(failed, "block signals");
  }
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC));
  if (!signals.is_open()) return system_error(errno, "signalfd");
  Foreground foreground(std::move(signals));
  foreground.our_group_ = ::getpgrp();
  foreground.terminal_ = Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  // In `warren run … | less` both share the terminal, and the other program reads its keys.
  foreground.is_eager_ = foreground.is_ours() && ::isatty(0) == 1 && ::isatty(1) == 1;
  return foreground;
}

bool Foreground::is_ours() const { return terminal_.is_open() && ::tcgetpgrp(terminal_.get()) == our_group_; }

void Foreground::in_child() const {
  ::setpgid(0, 0);
  if (is_eager_) give_terminal(terminal_.get(), ::getpid());
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none = set_of({});
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void Foreground::hand_over() {
  if (is_ours()) give_terminal(terminal_.get(), command_);
}

void Foreground::take_back() {
  if (!terminal_.is_open()) return;
  pid_t now = ::tcgetpgrp(terminal_.get());
  // Only from the command's own process groups, never from another job that the shell gave it to.
  bool is_with_command = now == command_ || (is_eager_ && now != our_group_);
  if (is_with_command) give_terminal(terminal_.get(), our_group_);
}

void Foreground::stop_with(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t one = set_of({signal});
  sigset_t before;
  ::kill(::getpid(), signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, &before);  // we stop here until we are continued
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Foreground::has_stopped(int signal) {
  bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
  if (!(wants_terminal && is_ours())) {
    take_back();
    stop_with(signal);
  }
  hand_over();
  ::kill(-command_, SIGCONT);
}

// Those that came when the command had just ended.
void Foreground::note_pending() {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return;
  for (int signal : kAskingToEnd) was_asked_to_end_ = was_asked_to_end_ || ::sigismember(&pending, signal) == 1;
  for (int signal : kInterrupting) was_interrupted_ = was_interrupted_ || ::sigismember(&pending, signal) == 1;
}

void Foreground::pass_on(int signal, int origin) {
  for (int asking : kAskingToEnd) was_asked_to_end_ = was_asked_to_end_ || signal == asking;
  for (int interrupting : kInterrupting) was_interrupted_ = was_interrupted_ || signal == interrupting;
  // A key's signal is meant for everyone in the group.
  bool is_for_all = origin == kFromKernel || signal == SIGTSTP;
  ::kill(is_for_all ? -command_ : command_, signal);
}

Result<int> Foreground::wait_for(pid_t command, const std::function<void()>& on_usr1) {
  command_ = command;
  for (;;) {
    int status = 0;
    pid_t changed = ::waitpid(command, &status, WNOHANG | WUNTRACED);
    if (changed < 0 && errno != EINTR) return system_error(errno, "wait for the command");
    if (changed == command && WIFSTOPPED(status)) {
      has_stopped(WSTOPSIG(status));
      continue;
    }
    if (changed == command) {
      note_pending();
      // Many programs take ^C for one step of their work, and go on.
      bool has_succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      was_asked_to_end_ = was_asked_to_end_ || (was_interrupted_ && !has_succeeded);
      take_back();
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGUSR1 && on_usr1) on_usr1();
    else if (signal != SIGCHLD && signal != SIGCONT) pass_on(signal, info.ssi_code);
  }
}

}  // namespace warren
