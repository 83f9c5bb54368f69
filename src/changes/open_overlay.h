// Opens an agent that has a base, after recovering from an interrupted apply.
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
  AgentOverlay overlay;  // refers to the agent
};

// kInvalid for an agent without a base. Calls `on_recovery` if an interrupted apply was finished or undone.
Result<OverlayAgent> open_overlay(const std::string& id, OpenMode mode, Clock& clock,
                                  const std::function<void(const Recovery&)>& on_recovery);

}  // namespace warren
