// Entry point: builds the context and runs the command line.
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>

#include "base/clock.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/mount/mount_helper.h"
#include "cli/run.h"

namespace {

std::optional<std::string> environment_variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

// The exit statuses that mount(8) expects from its helpers.
constexpr int kMountWrongUse = 1;
constexpr int kMountFailed = 32;

// SIGUSR1 takes a checkpoint of what a command serves; commands that serve no agent ignore it. By a handler, which
// programs that they start do not inherit.
void ignore_checkpoint_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace

int main(int count, char** words) {
  using namespace warren;
  using namespace warren::cli;
  // A descriptor that we open must not become a standard one, which is replaced in children and closed by nobody. What
  // takes the place of a closed one fails in the same way: input cannot be read from it, nor output written.
  for (int fd = 0; fd <= 2; ++fd) {
    bool is_closed = ::fcntl(fd, F_GETFD) < 0;
    if (is_closed && ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return static_cast<int>(Exit::kFailed);
  }
  // A closed pipe is handled as a write error, so that the agent is closed properly first.
  std::signal(SIGPIPE, SIG_IGN);
  ignore_checkpoint_signal();

  bool is_agentfs = count > 0 && base_name(words[0]) == "agentfs";
  Dialect dialect = is_agentfs ? Dialect::kAgentFs : Dialect::kWarren;
  Command root = is_agentfs ? make_agentfs() : make_warren();
  Colour colour = environment_variable("NO_COLOR").value_or("").empty() ? Colour::kOnTerminal : Colour::kNever;
  SystemClock clock;
  Output out(1, colour, Stream::kData);
  Output err(2, colour, Stream::kMessages);
  Context context{.out = out, .err = err, .clock = clock, .environment = environment_variable, .root = root};

  std::vector<std::string> arguments(words + (count > 0 ? 1 : 0), words + count);
  // `COMPLETE=bash agentfs` is how an AgentFS user's shell asks for completions.
  if (auto shell = environment_variable("COMPLETE"); is_agentfs && shell && !shell->empty()) {
    arguments = {"completions", *shell};
  }
  bool is_helper = count > 0 && is_mount_helper(base_name(words[0]));
  if (is_helper) {
    Result<std::vector<std::string>> translated = mount_words(arguments);
    if (!translated.ok()) {
      err.line(translated.error().message() +
               (translated.error().hint().empty() ? "" : ": " + translated.error().hint()));
      return kMountWrongUse;
    }
    if (translated->empty()) return static_cast<int>(Exit::kOk);
    arguments = *std::move(translated);
  }
  int status = run(context, dialect, arguments);
  if (is_helper && status != 0) return kMountFailed;
  if (out.reader_is_gone()) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  return status;
}
