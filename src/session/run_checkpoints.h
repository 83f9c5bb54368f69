// The checkpoints that a session's server takes by itself: at intervals, after tool calls, and when a signal asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/agent.h"
#include "agent/checkpoints/mounted_state.h"
#include "base/result.h"

namespace warren {

// For one thread. The agent and `mounted` must be open whenever a checkpoint is taken.
class RunCheckpoints {
 public:
  struct When {
    std::optional<std::chrono::milliseconds> every;  // if something has changed
    bool after_tool_calls = false;
  };
  // `mounted`: what is mounted in the namespace; null if there is none.
  static Result<std::unique_ptr<RunCheckpoints>> start(Agent& agent, MountedState* mounted, When when);

  // How long to wait, at most, until take_due() must be called again. `otherwise`: what the caller would wait; -1: for
  // ever.
  int patience_ms(int otherwise) const;
  void take_due();
  // A failure is reported by with_missed().
  void take(std::string_view cause);

  // How the run has ended, with what was not taken.
  Status with_missed(Status ended) const;

 private:
  RunCheckpoints(Agent& agent, MountedState* mounted, When when) : agent_(agent), mounted_(mounted), when_(when) {}

  void take_after_interval();
  void take_after_tool_calls();
  bool have_mounts_changed();

  Agent& agent_;
  MountedState* mounted_;
  When when_;
  Agent::ChangeMark first_change_;
  std::optional<std::chrono::steady_clock::time_point> next_;
  std::uint64_t calls_ended_ = 0;  // tool calls, at the last look
  std::string mounts_left_out_;    // of a checkpoint, and why; the last one
  int missed_ = 0;
  std::optional<Error> error_;  // the last one
};

}  // namespace warren
