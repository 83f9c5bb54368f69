// Which process this is, in a form another process can check later, also after a crash or a reboot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace warren {

// A pid alone comes round again; with the boot, the pid namespace and the start time it does not.
struct ProcessIdentity {
  std::string boot;
  std::int64_t pid_namespace = 0;
  std::int64_t pid = 0;
  std::int64_t started = 0;  // clock ticks after boot

  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity current_process();

// Of a process of our own pid namespace; nothing if there is none, or only what its parent has not asked for yet.
std::optional<ProcessIdentity> find_process(std::int64_t pid);

enum class Liveness {
  kAlive,
  kDead,
  kUnknown,  // in another pid namespace: cannot be told from here
};

Liveness liveness_of(const ProcessIdentity& process);

// How a process ended, as wait() would say it, also to those who are not its parent: by its entry in /proc until the
// parent has asked, and by its pidfd afterwards (Linux 6.15 and later; nothing before). Nothing while it runs,
// and nothing of a process whose user is another, unless we may look at everyone's.
std::optional<int> find_wait_status(const ProcessIdentity& process, int pidfd);

}  // namespace warren
