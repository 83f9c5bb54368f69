// Runs a command inside a sandbox on behalf of the user outside: its terminal, signals and exit status.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "sandbox/walls/run_limits.h"

namespace warren {

struct Entering {
  std::vector<Fd> namespaces;         // Sandbox::namespaces
  std::vector<std::string> writable;  // paths inside; Landlock refuses writes elsewhere
  std::string dir;                    // working directory
  std::vector<std::string> words;     // found by PATH
  std::vector<std::string> environment;
  LimitsInForce limits;
  std::function<void()> on_usr1;  // called for SIGUSR1, which is then not passed on; may be empty
  // Called with the mark of everything that is started here (sandbox/run_mark.h), in another process and before the
  // command starts.
  std::function<Status(int mark)> announce;
};

// Exit statuses that are not the command's own, as in env(1) and others.
inline constexpr int kOwnFailure = 125;
inline constexpr int kCannotRun = 126;
inline constexpr int kNoCommand = 127;

struct Ended {
  int status = 0;                 // the command's; 128 plus the signal that ended it; kCannotRun, kNoCommand
  std::string problem;            // why it could not be run, for the last two
  bool was_asked_to_end = false;  // by a signal to us
};

// Runs the command with our standard streams and no other descriptor, and waits for it. It has its own process group,
// so that it cannot signal ours. If we are in the terminal's foreground, the command's group becomes the foreground, so
// that keys work as without us; when it stops, we stop. Signals sent to us are passed on.
// Fails, with nothing run, if the sandbox cannot be entered.
Result<Ended> run_inside(const Entering& entering);

}  // namespace warren
