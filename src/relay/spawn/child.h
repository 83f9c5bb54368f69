// An agent's process: held at a gate, watched by a pidfd, ended together with its process group.
//
// After the fork a child waits at its gate, a pipe; if the relay dies first, the pipe closes and the child exits. So a
// relay that records the process before it opens the gate knows of every program that ever ran.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"
#include "os/processes/process.h"
#include "os/user.h"

namespace warren::relay {

struct ChildSpec {
  std::string program;            // absolute path
  std::vector<std::string> argv;  // passed literally, without a shell
  std::vector<std::string> env;   // NAME=value; nothing is inherited
  Fd dir;                         // its working directory
  Fd log;                         // standard output and error; standard input is /dev/null
  std::optional<HostUser> user;   // whom it runs as, if not as the relay
};

// How a process ended. Neither is set if it ended while no relay was running, or was an earlier relay's child and was
// reaped before we looked (see find_wait_status).
struct ChildEnd {
  std::optional<int> code;
  std::optional<int> signal;
};
std::string describe(const ChildEnd& end);

// Movable. The destructor kills a child that is still at its gate; a running one continues.
class Child {
 public:
  // Forks a child with its own session and process group and only the standard descriptors; it waits at the gate.
  static Result<Child> start(const ChildSpec& spec);
  // Takes over an earlier relay's process; nullopt if it is gone, or its pid belongs to another process now.
  static std::optional<Child> adopt(const ProcessIdentity& process);

  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) noexcept = default;
  ~Child();

  const ProcessIdentity& process() const { return process_; }
  int pidfd() const { return pidfd_.get(); }  // readable once the process has ended

  void open_gate();
  // Signals the whole process group, unless its id may belong to another group now.
  void signal_group(int signal) const;
  // Once it has ended, kills the rest of its group and reaps it. nullopt while it runs.
  std::optional<ChildEnd> take_end();

 private:
  Child(ProcessIdentity process, Fd pidfd, Fd gate, bool is_ours)
      : process_(std::move(process)), pidfd_(std::move(pidfd)), gate_(std::move(gate)), is_ours_(is_ours) {}
  bool group_is_ours() const;

  ProcessIdentity process_;
  Fd pidfd_;
  Fd gate_;  // closed once it was opened
  bool is_ours_ = false;
};

// Searches `path`, unless the name contains a slash. kNotFound, kDenied.
Result<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace warren::relay
