#include "sandbox/enter.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "os/error.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"
#include "os/processes/process.h"
#include "sandbox/foreground.h"
#include "sandbox/message.h"
#include "sandbox/run_mark.h"
#include "sandbox/streams.h"
#include "sandbox/walls/capabilities.h"
#include "sandbox/walls/landlock.h"
#include "sandbox/walls/syscall_filter.h"

namespace warren {
namespace {

// A directory descriptor leads to everything around it.
Status check_streams() {
  for (int fd : {0, 1, 2}) {
    struct stat info {};
    bool is_dir = ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_dir) {
      return Error(Code::kInvalid, fmt::format("standard stream {} is a directory, which would lead outside", fd));
    }
  }
  return Ok{};
}

// The host's /dev/null as a stream would be the host's node, which root could change; the one inside is read-only.
Status use_null_inside() {
  for (int fd : {0, 1, 2}) {
    struct stat info {};
    bool is_null = ::fstat(fd, &info) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3);
    if (!is_null) continue;
    int mode = ::fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK);
    Fd inside(::open("/dev/null", mode | O_CLOEXEC));
    if (!inside.is_open() || ::dup2(inside.get(), fd) < 0) return system_error(errno, "open /dev/null");
  }
  return Ok{};
}

Status raise_walls(const Entering& entering) {
  if (::chdir(entering.dir.c_str()) != 0) return system_error(errno, fmt::format("enter {}", quote(entering.dir)));
  WARREN_TRY(use_null_inside());
  WARREN_TRY(limit_process(entering.limits));
  WARREN_TRY(drop_capabilities());
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error(errno, "set no_new_privs");
  WARREN_TRY(restrict_writing(entering.writable));
  // After the last change of credentials, which clears it. The command ends with us.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return system_error(errno, "prctl");
  return filter_syscalls();
}

// Runs in the command's own process, inside; `report` is closed on exec. Other commands run there too: close what we
// still have open from outside before they can inspect us.
[[noreturn]] void become_command(const Entering& entering, Fd report, const Foreground& foreground,
                                 const FileStreams& streams) {
  foreground.in_child();
  streams.in_child();
  auto keep = static_cast<unsigned>(report.get());
  ::close_range(3, keep - 1, 0);
  ::close_range(keep + 1, ~0U, 0);
  Status walls = raise_walls(entering);
  if (!walls.ok()) {
    send_error(report.get(), walls.error()).ignore("then the exit status has to show it");
    ::_exit(kOwnFailure);
  }
  std::vector<char*> words = exec_strings(entering.words);
  std::vector<char*> environment = exec_strings(entering.environment);
  for (const std::string& variable : entering.environment) {
    if (variable.starts_with("PATH=")) ::setenv("PATH", variable.c_str() + 5, 1);  // execvpe searches it
  }
  ::execvpe(words[0], words.data(), environment.data());
  int number = errno;
  std::array<std::string, 2> failed{"exec", std::to_string(number)};
  send_message(report.get(), failed).ignore("then the exit status has to show it");
  ::_exit(number == ENOENT ? kNoCommand : kCannotRun);
}

// The first namespace is the user namespace, which gives the privilege to create others; after the last one, /proc no
// longer shows this process. So the mark is made between them. Whoever has it sees our end by the end of our
// connection, which this process shares: nothing is started that is not marked.
Status enter_namespaces(const Entering& entering) {
  if (!entering.limits.cgroup.empty()) WARREN_TRY(enter_cgroup(entering.limits.cgroup));
  bool is_marked = false;
  for (const Fd& space : entering.namespaces) {
    if (::setns(space.get(), 0) != 0) return system_error(errno, "enter the sandbox");
    if (is_marked) continue;
    Fd mark = WARREN_TRY(mark_this_process());
    WARREN_TRY(entering.announce(mark.get()));
    is_marked = true;
  }
  return Ok{};
}

// Enters the namespaces and leaves a child of our parent there: only a child is created in another pid namespace, and
// the command must be a child of the process that waits for it.
[[noreturn]] void go_inside(const Entering& entering, Fd report, const Foreground& foreground,
                            const FileStreams& streams) {
  ::prctl(PR_SET_DUMPABLE, 0);  // until exec, nobody inside may trace it
  hide_arguments("warren");     // nor read with which arguments the run was started
  Status entered = enter_namespaces(entering);
  if (!entered.ok()) {
    send_error(report.get(), entered.error()).ignore("then the exit status has to show it");
    ::_exit(kOwnFailure);
  }
  auto command = static_cast<pid_t>(::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
  if (command == 0) become_command(entering, std::move(report), foreground, streams);
  if (command < 0) {
    int number = errno;
    Error error = number == ENOMEM ? Error(Code::kUnavailable, "the sandbox has ended")
                                   : system_error(number, "start the command");
    send_error(report.get(), error).ignore("then the exit status has to show it");
    ::_exit(kOwnFailure);
  }
  std::array<std::string, 2> started{"pid", std::to_string(command)};
  send_message(report.get(), started).ignore("our parent is gone, and the command ends too");
  ::_exit(0);
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

struct Started {
  pid_t pid = 0;
  int failed = 0;  // errno of exec
};

// Waits until the command's program runs, or cannot run.
Result<Started> hear_of_start(int report) {
  Started started;
  for (;;) {
    Result<Message> message = receive_message(report);
    if (!message.ok()) {
      bool is_end = message.error().code() == Code::kUnavailable && started.pid != 0;
      if (is_end) return started;
      if (started.pid != 0) reap(started.pid);
      return std::move(message).take_error();
    }
    if (message->fields.size() != 2) return Error(Code::kInternal, "unexpected message from the sandbox");
    int number = parse_number<int>(message->fields[1]).value_or(0);
    (message->verb() == "pid" ? started.pid : started.failed) = number;
  }
}

Ended not_run(const std::string& word, int number) {
  if (number == ENOENT) return {kNoCommand, fmt::format("no program {}", quote(word))};
  return {kCannotRun, fmt::format("run {}: {}", quote(word), std::strerror(number))};
}

}  // namespace

Result<Ended> run_inside(const Entering& entering) {
  WARREN_TRY(check_streams());
  auto [ours, theirs] = WARREN_TRY(open_message_pair());
  Foreground foreground = WARREN_TRY(Foreground::prepare());
  FileStreams streams = WARREN_TRY(FileStreams::prepare());
  pid_t helper = ::fork();
  if (helper < 0) return system_error(errno, "fork");
  if (helper == 0) {
    ours = Fd();
    go_inside(entering, std::move(theirs), foreground, streams);
  }
  theirs = Fd();
  streams.carry();
  Result<Started> started = hear_of_start(ours.get());
  reap(helper);
  if (!started.ok()) return std::move(started).take_error();
  if (started->failed != 0) {
    reap(started->pid);
    foreground.take_back();
    return not_run(entering.words.front(), started->failed);
  }
  Ended ended;
  ended.status = WARREN_TRY(foreground.wait_for(started->pid, entering.on_usr1));
  ended.was_asked_to_end = foreground.was_asked_to_end();
  return ended;
}

}  // namespace warren
