// Limits on what a run may take of the machine.
//
// A cgroup limits the run as a whole. Where the user may not make one, the kernel's limits for a single process take
// its place: weaker, since a run can have many processes. docs/security.md, Resources.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace warren {

struct RunLimits {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> processes;  // and threads
  std::optional<std::uint64_t> cpu_seconds;
  std::optional<std::uint64_t> disk_bytes;

  bool operator==(const RunLimits&) const = default;
};

// More than any honest build has; a fork bomb ends there.
inline constexpr std::uint64_t kDefaultProcesses = 32'768;

// How the limits of one run are enforced; sent to each command that joins it.
struct LimitsInForce {
  RunLimits limits;
  bool counts_in_namespace = false;  // processes: the kernel limits the pid namespace (Linux 6.14)
  std::string cgroup;                // the directory of its cgroup; empty: none

  std::vector<std::string> fields() const;  // for a message
  static constexpr std::size_t kFields = 6;
  static LimitsInForce from_fields(const std::string* fields);

  std::vector<std::string> lines() const;  // for people
};

// Whether kernel.pid_max belongs to each pid namespace. Before Linux 6.14 it belongs to the machine.
bool has_own_pid_max();

// In the sandbox's first process, which is in a pid namespace of its own. Only if has_own_pid_max().
Status limit_namespace(std::uint64_t processes);

// In the command's process, before exec: the kernel's limits for it and everything it starts.
Status limit_process(const LimitsInForce& limits);

// A cgroup (version 2) for one run, beside our own. Removed at the end.
class RunCgroup {
 public:
  // Null where we may not make one, or it lacks a controller that is needed.
  static std::unique_ptr<RunCgroup> make(const RunLimits& limits, const std::string& name);
  ~RunCgroup();
  RunCgroup(const RunCgroup&) = delete;
  RunCgroup& operator=(const RunCgroup&) = delete;

  const std::string& path() const { return path_; }
  Status add(pid_t pid) const;

 private:
  explicit RunCgroup(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// Our cgroup in the text of /proc/self/cgroup ("/user.slice/…"); nullopt if version 2 is not in use.
std::optional<std::string> parse_own_cgroup(std::string_view text);

// Moves this process into a cgroup. Before it enters the sandbox.
Status enter_cgroup(const std::string& dir);

}  // namespace warren
