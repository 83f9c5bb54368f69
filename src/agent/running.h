// This user's processes that serve an agent: mounts, and commands started by `exec` or `run`.
//
// Each has a small file in a private folder that the system empties at boot. A file whose process is dead is left over
// from a crash; listing removes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "os/processes/process.h"

namespace warren {

// A private folder of this user that the system empties at boot. kDenied if another user has made it.
Result<std::string> runtime_folder();

struct Running {
  std::string kind;   // "mount", "exec" or "run"
  std::string agent;  // path of its file
  std::string dir;    // where it is mounted
  std::string command;
  std::int64_t started_at = 0;  // Unix seconds
  ProcessIdentity process;
  std::string lost;  // what it could not store, for a user to read; "" if nothing
};

// An entry in the list; the destructor removes it.
class RunningEntry {
 public:
  static Result<std::unique_ptr<RunningEntry>> add(Running running);
  ~RunningEntry();
  RunningEntry(const RunningEntry&) = delete;
  RunningEntry& operator=(const RunningEntry&) = delete;

  // Shows to `ps` and `umount` what is lost though the process goes on.
  void set_lost(std::string lost);
  // Leaves a report that this process could not store everything, for whoever ended it, or asks later.
  void leave_failure(const Error& error) const;

 private:
  RunningEntry(std::string file, Running running) : file_(std::move(file)), running_(std::move(running)) {}
  std::string file_;
  Running running_;
};

// How a process ended that could not store everything.
struct EndedBadly {
  Running running;
  std::string message;
  std::string hint;
};

// The reports of processes that have ended, which are removed: each is returned once. Only that of `process`, if given.
Result<std::vector<EndedBadly>> take_failures(const ProcessIdentity* process = nullptr);

// Sorted by start time. Removes entries of dead processes.
Result<std::vector<Running>> list_running();

}  // namespace warren
