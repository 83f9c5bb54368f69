// What SIGUSR1 does in a process that serves an agent.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/checkpoints/mounted_state.h"

namespace warren {

// Takes a checkpoint named "signal". Returns lines for people: what it does not cover, or why there is none.
std::vector<std::string> take_signal_checkpoint(Agent& agent, MountedState* mounted);

}  // namespace warren
