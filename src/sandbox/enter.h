// Bringing a command into a sandbox from outside, and standing for it there: its terminal, signals and status.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

struct Entering {
  std::vector<Fd> namespaces;         // Sandbox::namespaces
  std::vector<std::string> writable;  // paths inside; the second wall lets nothing else be written
  std::string dir;                    // where it starts
  std::vector<std::string> words;     // found by PATH
  std::vector<std::string> environment;
};

// Exit statuses that are not the command's own, as env(1) and others have them.
inline constexpr int kOwnFailure = 125;
inline constexpr int kCannotRun = 126;
inline constexpr int kNoCommand = 127;

struct Ended {
  int status = 0;       // the command's; 128 and the signal that ended it; kCannotRun, kNoCommand
  std::string problem;  // why it could not be run, for the last two
};

// Runs the command with our standard streams and no other descriptor, and waits for it. It has a process group of
// its own: signals sent to ours must not be its doing. When our terminal is in the foreground it gets that, and
// keys mean for it what they would without us; when it stops, we stop. SIGTERM, SIGHUP, SIGINT and SIGQUIT sent to
// us are passed on. Fails, with nothing run, when it cannot come in.
Result<Ended> run_inside(const Entering& entering);

}  // namespace warren
