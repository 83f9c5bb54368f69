#include "os/processes/child.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/processes/exec_strings.h"

namespace warren {
namespace {

// The one exception to "no mutable globals": a signal handler can reach nothing else.
std::atomic<pid_t> child_pid = 0;
std::atomic<int> signal_to_pass_on = 0;

// Called by the handler, and again once the pid is known, because a signal may arrive before that. Only one of the
// calls finds the signal.
void pass_on_to_child() {
  pid_t pid = child_pid;
  if (pid == 0) return;
  int signal = signal_to_pass_on.exchange(0);
  if (signal != 0) ::kill(pid, signal);
}

void pass_on(int signal) {
  signal_to_pass_on = signal;
  pass_on_to_child();
}

// Restores the previous handlers and mask when destroyed.
class SignalsWhileWaiting {
 public:
  SignalsWhileWaiting() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    struct sigaction forward {};
    forward.sa_handler = pass_on;
    forward.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &ignore, &interrupt_);
    ::sigaction(SIGQUIT, &ignore, &quit_);
    ::sigaction(SIGTERM, &forward, &terminate_);
    ::sigaction(SIGHUP, &forward, &hang_up_);
    // Last: our caller may have blocked these signals until handlers are installed.
    sigset_t dealt_with;
    ::sigemptyset(&dealt_with);
    for (int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) ::sigaddset(&dealt_with, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &dealt_with, &mask_);
  }
  ~SignalsWhileWaiting() {
    ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGQUIT, &quit_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
    ::sigaction(SIGHUP, &hang_up_, nullptr);
  }
  SignalsWhileWaiting(const SignalsWhileWaiting&) = delete;
  SignalsWhileWaiting& operator=(const SignalsWhileWaiting&) = delete;

 private:
  struct sigaction interrupt_ {};
  struct sigaction quit_ {};
  struct sigaction terminate_ {};
  struct sigaction hang_up_ {};
  sigset_t mask_{};
};

Result<pid_t> spawn(const std::vector<std::string>& words, const std::string& dir) {
  std::vector<char*> argv = exec_strings(words);
  std::string pwd = "PWD=" + dir;
  std::vector<char*> env = environment_with(pwd);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, dir.c_str());
  // The child starts with default handlers and an empty mask, whatever we ignore or block.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  sigset_t usual;
  ::sigfillset(&usual);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  int failed = ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), env.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT) return Error(Code::kNotFound, fmt::format("no program {}", quote(words[0])));
  if (failed != 0) return system_error(failed, fmt::format("run {}", quote(words[0])));
  return pid;
}

}  // namespace

Result<int> run_child(const std::vector<std::string>& words, const std::string& dir) {
  signal_to_pass_on = 0;
  SignalsWhileWaiting handling;
  pid_t pid = WARREN_TRY(spawn(words, dir));
  child_pid = pid;
  pass_on_to_child();
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno == EINTR) continue;
    return system_error(errno, "wait for the command");
  }
  child_pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace warren
