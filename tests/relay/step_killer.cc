// Runs a program and kills it (SIGKILL) when it enters its Nth system call, whichever thread makes it.
//
//   step_killer start N PROGRAM ARGUMENT…   counted from the program's exec on
//   step_killer later PROGRAM ARGUMENT…     counted from when a line with N is read from standard input; says "armed"
//
// Any further line, or the end of standard input, kills it too. Ends by saying "killed N" when the Nth call was
// reached, "stopped COUNT" when the program was killed because it was asked for, "ended COUNT STATUS" when it ended by
// itself.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include <dirent.h>
#include <poll.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
constexpr int kSystemCallStop = SIGTRAP | 0x80;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(2);
}

[[noreturn]] void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  std::exit(0);
}

class Killer {
 public:
  Killer(pid_t program, int signals) : program_(program), signals_(signals) {}

  // Every thread there is; those to come are traced by themselves. Looks until it finds no new one.
  void seize() {
    std::string path = "/proc/" + std::to_string(program_) + "/task";
    for (bool found = true; found;) {
      found = false;
      DIR* tasks = ::opendir(path.c_str());
      if (tasks == nullptr) return;  // it has ended; on_child() hears of it
      while (const dirent* entry = ::readdir(tasks)) {
        auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
        if (thread == 0 || threads_.contains(thread)) continue;
        threads_.insert(thread);
        found = true;
        if (::ptrace(PTRACE_SEIZE, thread, nullptr, kOptions) != 0) continue;  // a clone of one we trace
        ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
      }
      ::closedir(tasks);
    }
  }

  void set_last(long last) { last_ = last; }

  // Serves until the program has ended, one way or another.
  [[noreturn]] void run() {
    for (;;) {
      pollfd both[2] = {{STDIN_FILENO, POLLIN, 0}, {signals_, POLLIN, 0}};
      if (::poll(both, 2, -1) < 0 && errno != EINTR) give_up("poll");
      if (both[0].revents != 0) on_input();
      if (both[1].revents != 0) {
        signalfd_siginfo ignored;
        if (::read(signals_, &ignored, sizeof ignored) < 0 && errno != EAGAIN) give_up("read");
      }
      on_children();
    }
  }

 private:
  void on_input() {
    char buffer[64] = {};
    ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer - 1);
    if (got > 0 && last_ == 0) {
      last_ = std::atol(buffer);
      seize();
      std::printf("armed\n");
      std::fflush(stdout);
      return;
    }
    end_it("stopped " + std::to_string(count_));
  }

  [[noreturn]] void end_it(const std::string& why) {
    ::kill(program_, SIGKILL);
    for (;;) {  // its other threads first: until they are waited for, it has not ended
      int status = 0;
      pid_t ended = ::waitpid(-1, &status, __WALL);
      if (ended < 0 || (ended == program_ && (WIFSIGNALED(status) || WIFEXITED(status)))) say(why);
    }
  }

  void on_children() {
    for (;;) {
      int status = 0;
      pid_t thread = ::waitpid(-1, &status, __WALL | WNOHANG);
      if (thread <= 0) return;
      on_child(thread, status);
    }
  }

  void on_child(pid_t thread, int status) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread == program_) say("ended " + std::to_string(count_) + " " + std::to_string(status));
      return;
    }
    threads_.insert(thread);
    int signal = WSTOPSIG(status);
    if (signal == kSystemCallStop) {
      if (is_entry(thread) && ++count_ == last_) end_it("killed " + std::to_string(count_));
      signal = 0;
    } else if (status >> 16 != 0) {  // clone, exec, or a stop that we asked for
      signal = 0;
    }
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, static_cast<long>(signal));
  }

  static bool is_entry(pid_t thread) {
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0) return false;
    return info.op == PTRACE_SYSCALL_INFO_ENTRY;
  }

  pid_t program_;
  int signals_;
  long last_ = 0;
  long count_ = 0;
  std::set<pid_t> threads_;
};

}  // namespace

int main(int count, char** words) {
  bool is_later = count > 2 && std::string_view(words[1]) == "later";
  bool is_start = count > 3 && std::string_view(words[1]) == "start";
  if (!is_later && !is_start) return 2;
  sigset_t child;
  sigset_t before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, &before);
  int signals = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  int gate[2];
  if (signals < 0 || ::pipe(gate) != 0) give_up("prepare");
  pid_t program = ::fork();
  if (program < 0) give_up("fork");
  if (program == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::close(gate[1]);
    char byte = 0;
    if (::read(gate[0], &byte, 1) < 0) ::_exit(127);
    ::close(gate[0]);
    char** arguments = words + (is_later ? 2 : 3);
    ::execv(arguments[0], arguments);
    ::_exit(127);
  }
  ::close(gate[0]);
  Killer killer(program, signals);
  if (is_start) {
    killer.set_last(std::atol(words[2]));
    killer.seize();
  }
  ::close(gate[1]);
  killer.run();
}
