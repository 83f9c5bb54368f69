// Opens an agent that has a base.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/apply/apply.h"
#include "changes/undo/undo.h"

namespace warren {

struct OverlayAgent {
  std::unique_ptr<Agent> agent;
  AgentOverlay overlay;  // refers to the agent
};

// kInvalid for an agent without a base. Does nothing about an interrupted apply (is_interrupted).
Result<OverlayAgent> open_overlay(const AgentOptions& options, Clock& clock);
Result<OverlayAgent> open_overlay(const std::string& id, OpenMode mode, Clock& clock);

// For writing, after recovering from an interrupted apply.
struct RecoveredAgent {
  OverlayAgent opened;
  std::optional<Recovery> recovery;
  std::vector<UndoRecovery> undos;  // of interrupted undos in the same base
};
Result<RecoveredAgent> open_and_recover(const std::string& id, Clock& clock);

// The error of a command that cannot work on a base that is half changed; Ok without an interrupted apply.
Status refuse_interrupted(Agent& agent, const std::string& id);

}  // namespace warren
