// Shares a terminal with one command, the way a shell does with its jobs.
#pragma once

#include <csignal>
#include <functional>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Create it before the command's process is forked; from then on the signals it handles are blocked in ours.
class Foreground {
 public:
  static Result<Foreground> prepare();

  // In the command's process, before exec: creates its process group, gives it the terminal if it is to be handed over,
  // and resets signals to their defaults.
  void in_child() const;

  // The command's exit status, or 128 plus the signal that ended it. `on_usr1`: see Entering.
  Result<int> wait_for(pid_t command, const std::function<void()>& on_usr1);

  void take_back();

  // After wait_for(): whether we got SIGTERM or SIGHUP; or SIGINT or SIGQUIT, and the command did not end with success.
  bool was_asked_to_end() const { return was_asked_to_end_; }

 private:
  explicit Foreground(Fd signals) : signals_(std::move(signals)) {}

  bool is_ours() const;
  void hand_over();
  void has_stopped(int signal);
  void stop_with(int signal);
  void note_pending();
  void pass_on(int signal, int origin);

  Fd signals_;
  Fd terminal_;            // our controlling terminal; closed if there is none
  bool is_eager_ = false;  // hand it over at once, not only when the command needs it
  bool was_asked_to_end_ = false;
  bool was_interrupted_ = false;
  pid_t command_ = 0;
  pid_t our_group_ = 0;
};

}  // namespace warren
