// The identity of a process, in a form that another process can check later, even after a crash or a reboot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace warren {

// A pid is reused; together with the boot, the pid namespace and the start time it is unique.
struct ProcessIdentity {
  std::string boot;
  std::int64_t pid_namespace = 0;
  std::int64_t pid = 0;
  std::int64_t started = 0;  // clock ticks after boot

  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity current_process();

// Replaces the command line that others see of this process (/proc/PID/cmdline) by `title`. Only for a process that has
// been forked and does not look at argv any more.
void hide_arguments(std::string_view title);

// The identity of a process in our own pid namespace; nullopt if it does not exist or is a zombie.
std::optional<ProcessIdentity> find_process(std::int64_t pid);

enum class Liveness {
  kAlive,
  kDead,
  kUnknown,  // in another pid namespace, which we cannot see
};

Liveness liveness_of(const ProcessIdentity& process);

// How a process ended, as wait() would return it, also for processes that are not our children: from /proc while it is
// a zombie, then from its pidfd (Linux 6.15 and later; nullopt before). nullopt while it runs, and for another user's
// process unless we may inspect all processes.
std::optional<int> find_wait_status(const ProcessIdentity& process, int pidfd);

}  // namespace warren
