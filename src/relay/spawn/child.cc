#include "relay/spawn/child.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"

namespace warren::relay {
namespace {

constexpr int kAboveStandard = 10;  // descriptors from here on are not overwritten by dup2 to 0..3
constexpr int kGateInChild = 3;
constexpr int kGateClosed = 125;
constexpr int kNotRun = 127;

Result<Fd> raise(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, kAboveStandard));
  if (!copy.is_open()) return system_error(errno, "duplicate a descriptor");
  return copy;
}

struct ExecArguments {
  const char* program;
  char** argv;
  char** env;
  int dir;
  int log;
  int null;
  int gate;
  const HostUser* user;  // null: as the relay
};

void write_error(const char* text) {
  ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);  // on a full disk the exit status must do
}

// By system calls: the functions of the C library would look for other threads.
bool become_user(const HostUser& user) {
  return ::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0 &&
         ::syscall(SYS_setresgid, user.gid, user.gid, user.gid) == 0 &&
         ::syscall(SYS_setresuid, user.uid, user.uid, user.uid) == 0;
}

// Runs in the forked child of a process with threads: only async-signal-safe calls.
[[noreturn]] void become(const ExecArguments& it) {
  ::setsid();
  bool is_set = ::dup2(it.null, 0) >= 0 && ::dup2(it.log, 1) >= 0 && ::dup2(it.log, 2) >= 0;
  is_set = is_set && ::fchdir(it.dir) == 0 && ::dup2(it.gate, kGateInChild) >= 0;
  is_set = is_set && ::syscall(SYS_close_range, kGateInChild + 1, ~0U, 0) == 0;
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  char word = 0;
  ssize_t got = -1;
  while (is_set && (got = ::read(kGateInChild, &word, 1)) < 0 && errno == EINTR) {
  }
  if (got != 1) ::_exit(kGateClosed);
  if (it.user != nullptr && !become_user(*it.user)) {
    write_error("warren: cannot become the agent's user\n");
    ::_exit(kNotRun);
  }
  ::close(kGateInChild);
  ::execve(it.program, it.argv, it.env);
  const char* why = ::strerrordesc_np(errno);
  write_error("warren: cannot run ");
  write_error(it.program);
  write_error(": ");
  write_error(why != nullptr ? why : "unknown error");
  write_error("\n");
  ::_exit(kNotRun);
}

Fd open_pidfd(std::int64_t pid) { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0))); }

// Blocks all signals, so that the child does not run the relay's signal handlers.
pid_t fork_blocked(const ExecArguments& prepared) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = ::fork();
  if (pid == 0) become(prepared);
  int failed = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = failed;
  return pid;
}

}  // namespace

std::string describe(const ChildEnd& end) {
  if (end.code) return fmt::format("exit status {}", *end.code);
  if (end.signal) return fmt::format("signal {}", *end.signal);
  return "unknown: it ended while the relay was not running";
}

Result<Child> Child::start(const ChildSpec& spec) {
  Pipe gate = WARREN_TRY(open_pipe());
  Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_open()) return system_error(errno, "open '/dev/null'");
  Fd high_null = WARREN_TRY(raise(null.get()));
  Fd high_log = WARREN_TRY(raise(spec.log.get()));
  Fd high_dir = WARREN_TRY(raise(spec.dir.get()));
  Fd high_gate = WARREN_TRY(raise(gate.reader.get()));
  std::vector<char*> argv = exec_strings(spec.argv);
  std::vector<char*> env = exec_strings(spec.env);
  const HostUser* user = spec.user ? &*spec.user : nullptr;
  ExecArguments prepared{spec.program.c_str(), argv.data(),     env.data(),      high_dir.get(),
                         high_log.get(),       high_null.get(), high_gate.get(), user};
  pid_t pid = fork_blocked(prepared);
  if (pid < 0) return system_error(errno, "fork");
  Child child({.boot = "", .pid_namespace = 0, .pid = pid, .started = 0}, open_pidfd(pid), std::move(gate.writer),
              true);
  std::optional<ProcessIdentity> process = find_process(pid);
  if (!child.pidfd_.is_open() || !process) {
    return Error(Code::kIo, fmt::format("cannot watch process {}", pid));  // the destructor kills it
  }
  child.process_ = *std::move(process);
  return child;
}

std::optional<Child> Child::adopt(const ProcessIdentity& process) {
  Fd pidfd = open_pidfd(process.pid);  // first: checks of the pid that follow hold for this process
  if (!pidfd.is_open() || liveness_of(process) != Liveness::kAlive) return std::nullopt;
  return Child(process, std::move(pidfd), Fd(), false);
}

Child::~Child() {
  bool waits = gate_.is_open();
  if (!waits || process_.pid <= 0) return;
  auto pid = static_cast<pid_t>(process_.pid);
  ::kill(pid, SIGKILL);  // our unreaped child, so the pid is still its own
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Child::open_gate() {
  Fd gate = std::move(gate_);
  char word = 1;
  write_all(gate.get(), as_bytes(std::string_view(&word, 1)))
      .ignore("it was killed at the gate; poll() reports its end");
}

// A pid is not reused while a process group or an unreaped process has it. Once neither exists, a process with that
// pid is a different one.
bool Child::group_is_ours() const {
  if (is_ours_) return true;
  if (process_.boot != current_process().boot) return false;
  std::optional<ProcessIdentity> there = find_process(process_.pid);
  return !there || *there == process_;
}

void Child::signal_group(int signal) const {
  if (process_.pid <= 1 || !group_is_ours()) return;
  if (::kill(-static_cast<pid_t>(process_.pid), signal) == 0) return;
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);  // it has not created its group yet
}

std::optional<ChildEnd> Child::take_end() {
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (::poll(&ended, 1, 0) <= 0) return std::nullopt;
  ChildEnd end;
  siginfo_t info{};
  auto number = static_cast<id_t>(pidfd_.get());
  bool is_known = is_ours_ && ::waitid(P_PIDFD, number, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  if (is_known && info.si_code == CLD_EXITED) end.code = info.si_status;
  if (is_known && info.si_code != CLD_EXITED) end.signal = info.si_status;
  std::optional<int> status = is_ours_ ? std::nullopt : find_wait_status(process_, pidfd_.get());
  if (status && WIFEXITED(*status)) end.code = WEXITSTATUS(*status);
  if (status && WIFSIGNALED(*status)) end.signal = WTERMSIG(*status);
  signal_group(SIGKILL);  // before it is reaped, while the pid still names its group
  if (is_known) ::waitid(P_PIDFD, number, &info, WEXITED | WNOHANG);
  return end;
}

Result<std::string> find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != name.npos) {
    if (::access(name.c_str(), X_OK) == 0) return name;
    return system_error(errno, fmt::format("run {}", quote(name)));
  }
  std::string_view rest = path;
  while (!rest.empty()) {
    std::size_t end = std::min(rest.find(':'), rest.size());
    std::string candidate = fmt::format("{}/{}", rest.substr(0, end), name);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    struct stat info {};
    bool is_file = candidate[0] == '/' && ::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (is_file && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return Error(Code::kNotFound, fmt::format("program {} not found in PATH", quote(name)));
}

}  // namespace warren::relay
