// A sandbox: namespaces, the mounts inside them, and the process that keeps them.
//
// The first process inside (pid 1 there) builds the mounts, then waits: it takes over orphans, and everything
// inside ends with it. It ends with the process that started it, whatever happens to that. Commands come in
// from outside (sandbox/enter.h). docs/design/sandbox.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"
#include "sandbox/plan.h"

namespace warren {

// One thread at a time. The thread that called start() must live as long as the sandbox: the kernel ends the
// first process with it.
class Sandbox {
 public:
  // Returns once the namespaces are there; their mounts are made meanwhile. Call it before any thread is made.
  // kNotPermitted, kLimit: the hint names the setting that forbids it.
  static Result<std::unique_ptr<Sandbox>> start(const Plan& plan, const std::string& source);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  // Waits for the mounts. Gives the descriptor that the requests for the base come through; once.
  Result<Fd> take_requests();

  // The filesystem on the base answers: the rest is built, and commands may come in.
  Status open();

  // User, ipc, network (if it is a new one), pid and mount namespace, in the order to enter them.
  std::vector<int> namespaces() const;

  // Readable when the first process has ended.
  int ended_fd() const { return control_.get(); }

  // Ends everything inside, writes out what the kernel still has of the base and takes it away. The filesystem on
  // the base must still answer.
  void end();

 private:
  Sandbox(pid_t first, Fd control) : first_(first), control_(std::move(control)) {}

  pid_t first_;
  Fd control_;
  std::vector<Fd> namespaces_;
};

}  // namespace warren
