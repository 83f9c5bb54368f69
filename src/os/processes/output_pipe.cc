#include "os/processes/output_pipe.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"

extern char** environ;

namespace warren {
namespace {

// Ours, with `more` in place of variables of the same name.
std::vector<std::string> own_variables_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** each = environ; *each != nullptr; ++each) {
    std::string_view variable = *each;
    std::string_view name = variable.substr(0, variable.find('=') + 1);
    bool is_given = false;
    for (const std::string& one : more) is_given = is_given || one.starts_with(name);
    if (!is_given) all.emplace_back(variable);
  }
  return all;
}

Result<pid_t> spawn_reader(const std::vector<std::string>& words, int input,
                           const std::vector<std::string>& environment) {
  std::vector<std::string> variables = own_variables_with(environment);
  std::vector<char*> argv = exec_strings(words);
  std::vector<char*> env = exec_strings(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t usual;
  ::sigfillset(&usual);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  int failed = ::posix_spawnp(&pid, words[0].c_str(), &actions, &attributes, argv.data(), env.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return system_error(failed, fmt::format("start {}", quote(words[0])));
  return pid;
}

}  // namespace

OutputPipe::OutputPipe(int fd, Fd before, pid_t pid) : fd_(fd), before_(std::move(before)), pid_(pid) {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &ignore, &interrupt_);
  ::sigaction(SIGQUIT, &ignore, &quit_);
}

Result<std::unique_ptr<OutputPipe>> OutputPipe::start(const std::vector<std::string>& words, int fd,
                                                      const std::vector<std::string>& environment) {
  Pipe pipe = WARREN_TRY(open_pipe());
  Fd before(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!before.is_open()) return system_error(errno, "duplicate a descriptor");
  pid_t pid = WARREN_TRY(spawn_reader(words, pipe.reader.get(), environment));
  std::unique_ptr<OutputPipe> made(new OutputPipe(fd, std::move(before), pid));
  if (::dup2(pipe.writer.get(), fd) < 0) return system_error(errno, "connect the pager");
  return made;
}

OutputPipe::~OutputPipe() {
  ::dup2(before_.get(), fd_);  // closes the last writer of the pipe, so that the program sees the end
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGQUIT, &quit_, nullptr);
}

}  // namespace warren
