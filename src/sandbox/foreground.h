// A terminal shared with one command, the way a shell shares it with its jobs.
#pragma once

#include <csignal>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Make it before the command's process is forked; from then on the signals it deals with are blocked in ours.
class Foreground {
 public:
  static Result<Foreground> prepare();

  // In the command's process, before its program: a process group of its own, the terminal if there is one to hand
  // over, and signals as any program finds them.
  void in_child() const;

  // The command's exit status, or 128 and the signal that ended it.
  Result<int> wait_for(pid_t command);

  void take_back();

 private:
  explicit Foreground(Fd signals) : signals_(std::move(signals)) {}

  bool is_ours() const;
  void hand_over();
  void has_stopped(int signal);
  void stop_with(int signal);
  void pass_on(int signal, int origin);

  Fd signals_;
  Fd terminal_;            // ours to control; closed if there is none
  bool is_eager_ = false;  // hand it over at once, not only when the command asks for it
  pid_t command_ = 0;
  pid_t our_group_ = 0;
};

}  // namespace warren
