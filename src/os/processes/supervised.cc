#include "os/processes/supervised.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"

extern char** environ;

namespace warren {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::chrono::milliseconds kTick{100};

struct ChildStreams {
  int input;
  int output;
  int errors;
};

// In the child of a process with threads: only calls that are safe there.
[[noreturn]] void become(char* const* argv, const char* dir, const ChildStreams& streams, AtOurEnd at_end,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, at_end == AtOurEnd::kKill ? SIGKILL : SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // it died before the line above
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  for (int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGCHLD}) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  bool is_ready = ::dup2(streams.input, 0) == 0 && ::dup2(streams.output, 1) == 1 && ::dup2(streams.errors, 2) == 2 &&
                  ::chdir(dir) == 0;
  if (is_ready) ::execve(argv[0], argv, environ);
  ::_exit(127);
}

// The reading end of one stream of the program.
struct Stream {
  Fd end;
  std::string& text;
  bool is_cut = false;

  // False once the program and its children have closed it.
  bool take(std::size_t bytes_max) {
    std::array<char, 65536> piece;
    ssize_t count = ::read(end.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) {
      end = Fd();
      return false;
    }
    std::size_t kept = std::min(static_cast<std::size_t>(count), bytes_max - text.size());
    text.append(piece.data(), kept);
    is_cut = is_cut || kept < static_cast<std::size_t>(count);
    return true;
  }
};

class Watch {
 public:
  Watch(pid_t pid, Fd process, const Supervision& limits) : pid_(pid), process_(std::move(process)), limits_(limits) {
    until_ = std::chrono::steady_clock::now() + limits.timeout;
  }

  // Until the program has ended and its output is read, or nobody waits for the rest.
  void run(Stream& output, Stream& errors) {
    while (!has_ended_ || output.end.is_open() || errors.end.is_open()) {
      std::array<pollfd, 3> waited{pollfd{has_ended_ ? -1 : process_.get(), POLLIN, 0},
                                   pollfd{output.end.is_open() ? output.end.get() : -1, POLLIN, 0},
                                   pollfd{errors.end.is_open() ? errors.end.get() : -1, POLLIN, 0}};
      ::poll(waited.data(), waited.size(), static_cast<int>(kTick.count()));
      if (waited[1].revents != 0) output.take(limits_.output_bytes_max);
      if (waited[2].revents != 0) errors.take(limits_.output_bytes_max);
      SteadyTime now = std::chrono::steady_clock::now();
      if (waited[0].revents != 0) note_end(now);
      if (has_ended_ && now >= until_) return;  // somebody else holds the pipes
      if (!has_ended_) end_if_due(now);
    }
  }

  EndedBy ended_by() const { return ended_by_; }

 private:
  void note_end(SteadyTime now) {
    has_ended_ = true;
    until_ = now + limits_.grace;
  }

  void end_if_due(SteadyTime now) {
    bool is_cancelled = limits_.is_cancelled != nullptr && *limits_.is_cancelled;
    if (ended_by_ == EndedBy::kItself && (is_cancelled || now >= until_)) {
      ended_by_ = is_cancelled ? EndedBy::kCancelled : EndedBy::kTimeout;
      until_ = now + limits_.grace;
      ::kill(pid_, SIGTERM);
    } else if (ended_by_ != EndedBy::kItself && now >= until_) {
      ::kill(-pid_, SIGKILL);
      ::kill(pid_, SIGKILL);
    }
  }

  pid_t pid_;
  Fd process_;
  const Supervision& limits_;
  SteadyTime until_;
  bool has_ended_ = false;
  EndedBy ended_by_ = EndedBy::kItself;
};

}  // namespace

Result<Supervised> run_supervised(const std::vector<std::string>& words, const std::string& dir,
                                  const Supervision& limits) {
  Pipe output = WARREN_TRY(open_pipe());
  Pipe errors = WARREN_TRY(open_pipe());
  Fd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input.is_open()) return system_error(errno, "open '/dev/null'");
  std::vector<char*> argv = exec_strings(words);
  pid_t ours = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) return system_error(errno, fmt::format("run {}", quote(words[0])));
  if (pid == 0) {
    ChildStreams streams{input.get(), output.writer.get(), errors.writer.get()};
    become(argv.data(), dir.c_str(), streams, limits.at_our_end, ours);
  }
  output.writer = Fd();
  errors.writer = Fd();
  Supervised done;
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) {  // without it we could not see its end
    int why = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return system_error(why, fmt::format("watch {}", quote(words[0])));
  }
  Stream out{std::move(output.reader), done.output};
  Stream err{std::move(errors.reader), done.errors};
  Watch watch(pid, std::move(process), limits);
  watch.run(out, err);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return system_error(errno, "wait for a program");
  }
  done.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  done.is_cut = out.is_cut || err.is_cut;
  done.ended_by = watch.ended_by();
  return done;
}

}  // namespace warren
