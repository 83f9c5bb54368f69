// A sandbox: namespaces, the mounts inside them, and the process that keeps them alive.
//
// The first process inside (pid 1 there) builds the mounts, then waits: it adopts orphans, and everything inside ends
// with it. It ends when the process that started it ends, in any way. Commands enter from outside (sandbox/enter.h).
// docs/design/sandbox.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"
#include "sandbox/view/plan.h"

namespace warren {

// For one thread at a time. The thread that called start() must live as long as the sandbox: the kernel ends the first
// process with it.
class Sandbox {
 public:
  // Returns once the namespaces exist; the mounts are made concurrently. Call it before any thread is started.
  // kNotPermitted, kLimit: the hint names the setting that forbids it.
  static Result<std::unique_ptr<Sandbox>> start(const Plan& plan, const std::string& source);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  // The descriptors for requests to the filesystems; closed for those that the plan does not have.
  struct Requests {
    Fd base;
    Fd home;
    Fd names;  // of the agent's namespace
  };

  // Waits for the mounts. Call it once.
  Result<Requests> take_requests();

  // The socket on which programs inside reach the proxy, if the plan has one. After take_requests.
  Fd take_proxy_socket() { return std::move(proxy_); }

  // The first process, and whether its pid namespace limits the number of processes. After take_requests.
  pid_t first() const { return first_; }
  bool limits_processes() const { return limits_processes_; }

  // Call when these filesystems answer: builds the rest, after which commands may enter.
  Status open();

  // User, ipc, network (if new), pid and mount namespace, in the order to enter them.
  std::vector<int> namespaces() const;

  // Ends everything with this mark (sandbox/run_mark.h), soon. `done`, if it is not -1, is then closed.
  Status end_run(int mark, int done) const;

  // Readable when the first process has ended.
  int ended_fd() const { return control_.get(); }

  // Ends everything inside, writes back dirty pages and unmounts the filesystems, which must still answer.
  void end();

 private:
  Sandbox(pid_t first, Fd control, const Plan& plan)
      : first_(first),
        has_home_(plan.home.has_value()),
        has_names_(plan.namespace_path.has_value()),
        has_proxy_(plan.has_proxy),
        control_(std::move(control)) {}

  pid_t first_;
  bool has_home_;
  bool has_names_;
  bool has_proxy_;
  bool limits_processes_ = false;
  Fd control_;
  Fd proxy_;
  std::vector<Fd> namespaces_;
};

}  // namespace warren
