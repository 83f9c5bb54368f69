// A process of an agent: started behind a gate, watched by a pidfd, ended with its whole group.
//
// A child does nothing but wait until its gate is opened; if the relay dies before, it sees that the gate is gone and
// ends. So whoever writes down which process it is before opening the gate knows of every program that was ever run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"
#include "os/process.h"

namespace warren::relay {

struct ChildSpec {
  std::string program;            // whole path
  std::vector<std::string> argv;  // given as they are: there is no shell
  std::vector<std::string> env;   // NAME=value, all of it
  Fd dir;                         // where it works
  Fd log;                         // its standard output and error; it reads from /dev/null
};

// How a process ended. Neither: it ended while no relay was there, or was an earlier relay's child and was reaped
// before we looked (see find_wait_status).
struct ChildEnd {
  std::optional<int> code;
  std::optional<int> signal;
};
std::string describe(const ChildEnd& end);

// Movable. What is never let through ends with the object; what runs goes on without it.
class Child {
 public:
  // In a session and group of its own, with no descriptor but the standard ones, waiting at the gate. kNotFound: no
  // such program.
  static Result<Child> start(const ChildSpec& spec);
  // A process of an earlier relay. Nothing if it is gone or is another by now.
  static std::optional<Child> adopt(const ProcessIdentity& process);

  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) noexcept = default;
  ~Child();

  const ProcessIdentity& process() const { return process_; }
  int pidfd() const { return pidfd_.get(); }  // readable once it has ended

  void open_gate();
  // To every process of its group. Of a group that may be another's by now, nothing is signalled.
  void signal_group(int signal) const;
  // Once it has ended: ends what is left of its group, and leaves no zombie. Nothing while it runs.
  std::optional<ChildEnd> take_end();

 private:
  Child(ProcessIdentity process, Fd pidfd, Fd gate, bool is_ours)
      : process_(std::move(process)), pidfd_(std::move(pidfd)), gate_(std::move(gate)), is_ours_(is_ours) {}
  bool group_is_ours() const;

  ProcessIdentity process_;
  Fd pidfd_;
  Fd gate_;  // closed once it is through
  bool is_ours_ = false;
};

// Along PATH, unless it is a whole path. kNotFound, kDenied.
Result<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace warren::relay
