// What stands behind the public objects.
#pragma once

#include <memory>

#include "agent/agent.h"
#include "base/clock.h"

namespace warren::v1 {

// Not in <warren/v1/...>: users never see an internal type.
struct AgentState {
  SystemClock clock;
  std::unique_ptr<warren::Agent> agent;  // after the clock it uses
};

}  // namespace warren::v1
