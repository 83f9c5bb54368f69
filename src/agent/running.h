// The processes of this user that serve an agent right now: mounts, and commands that run in one or over one.
//
// Each keeps a small file in a folder of the user's own that the system empties at boot. A file whose
// process is dead is left over from a crash; whoever lists them removes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/process.h"

namespace warren {

struct Running {
  std::string kind;   // "mount", "exec" or "run"
  std::string agent;  // path of its file
  std::string dir;    // where it is mounted
  std::string command;
  std::int64_t started_at = 0;  // Unix seconds
  ProcessIdentity process;
};

// On the list for as long as it lives.
class RunningEntry {
 public:
  static Result<std::unique_ptr<RunningEntry>> add(Running running);
  ~RunningEntry();
  RunningEntry(const RunningEntry&) = delete;
  RunningEntry& operator=(const RunningEntry&) = delete;

 private:
  explicit RunningEntry(std::string file) : file_(std::move(file)) {}
  std::string file_;
};

// By start time. Removes what is left over.
Result<std::vector<Running>> list_running();

}  // namespace warren
