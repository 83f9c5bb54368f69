#include "os/processes/capture.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "os/error.h"
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

Result<pid_t> spawn(const std::vector<std::string>& words, const std::string& dir, const Streams& streams,
                    const std::vector<std::string>* environment, Group group) {
  std::vector<char*> argv = exec_strings(words);
  std::vector<char*> envp;
  if (environment != nullptr) envp = exec_strings(*environment);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, dir.c_str());
  if (streams.input >= 0) ::posix_spawn_file_actions_adddup2(&actions, streams.input, 0);
  else ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, streams.output, 1);
  ::posix_spawn_file_actions_adddup2(&actions, streams.errors, 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  if (group == Group::kOwn) {
    sigset_t none;
    ::sigemptyset(&none);  // whatever this thread has blocked: the user can end the program from the terminal
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  }
  pid_t pid = 0;
  int failed =
      ::posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environment != nullptr ? envp.data() : environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT) return Error(Code::kNotFound, fmt::format("no program {}", quote(words[0])));
  if (failed != 0) return system_error(failed, fmt::format("run {}", quote(words[0])));
  return pid;
}

// The program runs already, but has had no time to allocate much. It may have been given less before.
Status limit_memory(pid_t pid, std::uint64_t bytes) {
  struct rlimit limit {};
  bool is_known = ::prlimit(pid, RLIMIT_DATA, nullptr, &limit) == 0;
  if (is_known && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= bytes) return Ok{};
  limit.rlim_cur = bytes;
  bool is_limited = is_known && ::prlimit(pid, RLIMIT_DATA, &limit, nullptr) == 0;
  return is_limited || errno == ESRCH ? Status(Ok{}) : Status(system_error(errno, "limit a program's memory"));
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
  captured.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
  pid_t pid = WARREN_TRY(spawn(words, dir, {input, output.get(), errors.get()}, environment, Group::kOurs));
  Status limited = memory_bytes ? limit_memory(pid, *memory_bytes) : Status(Ok{});
  if (!limited.ok()) {
    ::kill(pid, SIGKILL);
    wait_captured(pid, words[0], limit, output.get(), errors.get()).ignore("it was killed");
    return std::move(limited).take_error();
  }
  return wait_captured(pid, words[0], limit, output.get(), errors.get());
}

Result<Captured> run_captured_group(const std::vector<std::string>& words, const std::string& dir,
                                    std::chrono::milliseconds limit) {
  Fd output = WARREN_TRY(open_memory("output"));
  Fd errors = WARREN_TRY(open_memory("errors"));
  pid_t pid = WARREN_TRY(spawn(words, dir, {-1, output.get(), errors.get()}, nullptr, Group::kOwn));
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
