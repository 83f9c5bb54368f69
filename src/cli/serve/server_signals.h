// The signals of a command that serves agents: SIGINT and SIGTERM end it, SIGUSR1 takes checkpoints.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/result.h"
#include "os/fd.h"
#include "os/processes/signals.h"

namespace warren::cli {

class ServerSignals {
 public:
  // Call it before any thread is started, so that all of them leave the signals to this one.
  static Result<std::unique_ptr<ServerSignals>> take();
  ~ServerSignals();  // waits for a checkpoint that is being taken
  ServerSignals(const ServerSignals&) = delete;
  ServerSignals& operator=(const ServerSignals&) = delete;

  int stop_fd() const { return stop_.get(); }  // readable when the server must end

  // Once. `take_checkpoints` is called by another thread, for each SIGUSR1; `on_stop` by the same one, just before
  // stop_fd() becomes readable: it ends what calls wait for. Neither is called after the destructor.
  void listen(std::function<void()> take_checkpoints, std::function<void()> on_stop = {});

 private:
  ServerSignals(Signals signals, Fd stop, Fd ended);

  Signals signals_;
  Fd stop_;
  Fd ended_;
  std::thread listener_;
};

}  // namespace warren::cli
