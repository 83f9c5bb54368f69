#include "os/processes/capture.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "os/error.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"

namespace warren {
namespace {

// Memory files rather than pipes: nobody has to read while the child writes.
Result<Fd> open_memory(const char* name) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, "create a buffer for a program's output");
  return fd;
}

Result<std::string> read_whole(int fd) {
  if (::lseek(fd, 0, SEEK_SET) != 0) return system_error(errno, "read a program's output");
  std::string text;
  constexpr std::size_t kStep = 65536;
  for (;;) {
    std::size_t had = text.size();
    text.resize(had + kStep);
    std::size_t count = WARREN_TRY(read_full(fd, as_mutable_bytes(text).subspan(had)));
    text.resize(had + count);
    if (count < kStep) return text;
  }
}

// In memory, until it ends: one that prints without end would take all of the machine's.
constexpr std::uint64_t kCapturedBytes = std::uint64_t{256} << 20;

std::uint64_t size_of(int fd) {
  struct stat there {};
  return ::fstat(fd, &there) == 0 ? static_cast<std::uint64_t>(there.st_size) : 0;
}

struct Streams {
  int input;
  int output;
  int errors;
};

enum class Group { kOurs, kOwn };

// What the child needs, made before: between fork and exec it may call nothing but the kernel.
struct Start {
  std::vector<char*> argv;
  std::vector<char*> envp;
  const char* dir;
  Streams streams;
  Group group;
  std::optional<std::uint64_t> memory_bytes;
  pid_t parent;
  int report;  // gets errno if it cannot start
};

bool put_at(int fd, int place) { return fd == place ? ::fcntl(fd, F_SETFD, 0) == 0 : ::dup2(fd, place) == place; }

bool connect_streams(const Streams& streams) {
  int input = streams.input >= 0 ? streams.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return input >= 0 && put_at(input, 0) && put_at(streams.output, 1) && put_at(streams.errors, 2);
}

// It may have been given less before.
bool limit_memory(std::uint64_t bytes) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) return false;
  if (limit.rlim_cur <= bytes) return true;
  limit.rlim_cur = bytes;
  return ::setrlimit(RLIMIT_DATA, &limit) == 0;
}

// Whatever this thread has blocked, the user can end the program from the terminal. All signals are blocked until then.
void unblock_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now {};
    bool is_ignored = ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!is_ignored) ::signal(signal, SIG_DFL);  // a handler is ours
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The thread that waits for the program is the one that has started it, so the program ends with it.
[[noreturn]] void become_captured(const Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.parent) ::_exit(127);  // it died before the line above
  if (start.group == Group::kOwn) ::setpgid(0, 0);
  bool is_ready = connect_streams(start.streams) && ::chdir(start.dir) == 0 &&
                  (!start.memory_bytes || limit_memory(*start.memory_bytes));
  if (is_ready) {
    unblock_signals();
    ::execvpe(start.argv[0], start.argv.data(), start.envp.empty() ? environ : start.envp.data());
  }
  int number = errno;
  [[maybe_unused]] ssize_t reported = ::write(start.report, &number, sizeof number);
  ::_exit(127);
}

pid_t fork_with_signals_blocked() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = ::fork();
  int number = errno;
  if (pid != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = number;
  return pid;
}

Result<pid_t> spawn(const std::vector<std::string>& words, const std::string& dir, const Streams& streams,
                    const std::vector<std::string>* environment, Group group,
                    std::optional<std::uint64_t> memory_bytes) {
  Pipe report = WARREN_TRY(open_pipe());
  Start start{.argv = exec_strings(words),
              .envp = {},
              .dir = dir.c_str(),
              .streams = streams,
              .group = group,
              .memory_bytes = memory_bytes,
              .parent = ::getpid(),
              .report = report.writer.get()};
  if (environment != nullptr) start.envp = exec_strings(*environment);
  pid_t pid = fork_with_signals_blocked();
  if (pid < 0) return system_error(errno, fmt::format("run {}", quote(words[0])));
  if (pid == 0) become_captured(start);
  if (group == Group::kOwn) ::setpgid(pid, pid);  // whoever is first
  report.writer = Fd();
  int problem = 0;
  Result<std::size_t> reported =
      read_full(report.reader.get(), {reinterpret_cast<std::byte*>(&problem), sizeof problem});
  if (!reported.ok() || *reported != sizeof problem) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (problem == ENOENT) return Error(Code::kNotFound, fmt::format("no program {}", quote(words[0])));
  return system_error(problem, fmt::format("run {}", quote(words[0])));
}

enum class Ended { kYes, kLate, kTalksTooMuch };

// Without a descriptor for the child, it is waited for without a limit.
Ended wait_for_end(pid_t pid, std::chrono::milliseconds limit, int output, int errors) {
  constexpr std::chrono::milliseconds kStep{20};
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) return Ended::kYes;
  auto until = std::chrono::steady_clock::now() + limit;
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Ended::kLate;
    pollfd ended{process.get(), POLLIN, 0};
    int ready = ::poll(&ended, 1, static_cast<int>(std::min(left, kStep).count()));
    if (ready > 0) return Ended::kYes;
    if (ready < 0 && errno != EINTR) return Ended::kLate;
    if (size_of(output) > kCapturedBytes || size_of(errors) > kCapturedBytes) return Ended::kTalksTooMuch;
  }
}

// `killed` is what to kill at the limit: the child, or minus its number for its group.
Result<Captured> wait_or_kill(pid_t pid, pid_t killed, const std::string& name,
                              std::optional<std::chrono::milliseconds> limit, int output, int errors) {
  Ended ended = limit ? wait_for_end(pid, *limit, output, errors) : Ended::kYes;
  if (ended != Ended::kYes) ::kill(killed, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return system_error(errno, "wait for a program");
  }
  if (ended == Ended::kTalksTooMuch) {
    return Error(Code::kTooLarge,
                 fmt::format("{} printed more than {} bytes and was killed", quote(name), kCapturedBytes));
  }
  if (ended == Ended::kLate) {
    auto seconds = std::chrono::ceil<std::chrono::seconds>(*limit).count();
    return Error(Code::kTimeout, fmt::format("{} did not end within {} s and was killed", quote(name), seconds));
  }
  Captured captured;
  captured.signal = WIFEXITED(status) ? 0 : WTERMSIG(status);
  captured.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + captured.signal;
  captured.output = WARREN_TRY(read_whole(output));
  captured.errors = WARREN_TRY(read_whole(errors));
  return captured;
}

// The terminal belongs to one process group; others are stopped when they read from it.
class TerminalLoan {
 public:
  explicit TerminalLoan(pid_t group) : terminal_(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) {
    bool is_ours = terminal_.is_open() && ::tcgetpgrp(terminal_.get()) == ::getpgrp();
    if (!is_ours) terminal_ = Fd();
    if (!terminal_.is_open()) return;
    give(group);
    ::kill(-group, SIGCONT);  // it may have been stopped already
  }
  TerminalLoan(const TerminalLoan&) = delete;
  TerminalLoan& operator=(const TerminalLoan&) = delete;
  ~TerminalLoan() {
    if (terminal_.is_open()) give(::getpgrp());
  }

 private:
  // From the background it would stop us.
  void give(pid_t group) const {
    sigset_t stop;
    sigset_t before;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTTOU);
    ::pthread_sigmask(SIG_BLOCK, &stop, &before);
    ::tcsetpgrp(terminal_.get(), group);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  Fd terminal_;
};

}  // namespace

Result<Captured> run_captured(const std::vector<std::string>& words, const std::string& dir, int input,
                              std::optional<std::chrono::milliseconds> limit,
                              const std::vector<std::string>* environment, std::optional<std::uint64_t> memory_bytes) {
  Fd output = WARREN_TRY(open_memory("output"));
  Fd errors = WARREN_TRY(open_memory("errors"));
  Streams streams{input, output.get(), errors.get()};
  pid_t pid = WARREN_TRY(spawn(words, dir, streams, environment, Group::kOurs, memory_bytes));
  return wait_captured(pid, words[0], limit, output.get(), errors.get());
}

Result<Captured> run_captured_group(const std::vector<std::string>& words, const std::string& dir,
                                    std::chrono::milliseconds limit) {
  Fd output = WARREN_TRY(open_memory("output"));
  Fd errors = WARREN_TRY(open_memory("errors"));
  Streams streams{-1, output.get(), errors.get()};
  pid_t pid = WARREN_TRY(spawn(words, dir, streams, nullptr, Group::kOwn, std::nullopt));
  TerminalLoan loan(pid);
  return wait_or_kill(pid, -pid, words[0], limit, output.get(), errors.get());
}

Result<Captured> wait_captured(int pid, const std::string& name, std::optional<std::chrono::milliseconds> limit,
                               int output, int errors) {
  return wait_or_kill(pid, pid, name, limit, output, errors);
}

Result<Fd> open_memory_file() {
  Fd fd(::memfd_create("warren", MFD_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, "create a file in memory");
  return fd;
}

Result<Fd> open_scratch_file() {
  const char* dir = std::getenv("TMPDIR");
  std::string name = std::string(dir != nullptr && dir[0] == '/' ? dir : "/tmp") + "/warren-XXXXXX";
  Fd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, "create a temporary file");
  ::unlink(name.c_str());
  return fd;
}

}  // namespace warren
