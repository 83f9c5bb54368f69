// Opening an agent that lies over a base, after finishing what an interrupted apply has left.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/apply.h"

namespace warren {

struct OverlayAgent {
  std::unique_ptr<Agent> agent;
  AgentOverlay overlay;  // of the agent
};

// kInvalid for an agent without a base. `on_recovery` is called if an interrupted apply was finished or taken back.
Result<OverlayAgent> open_overlay(const std::string& id, OpenMode mode, Clock& clock,
                                  const std::function<void(const Recovery&)>& on_recovery);

}  // namespace warren
