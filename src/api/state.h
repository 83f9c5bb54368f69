// The internal state of the public objects.
#pragma once

#include <memory>

#include "agent/agent.h"
#include "base/clock.h"

namespace warren::v1 {

// Not in <warren/v1/...>, so that users never see an internal type.
struct AgentState {
  SystemClock clock;
  std::unique_ptr<warren::Agent> agent;  // declared after the clock that it uses
};

}  // namespace warren::v1
