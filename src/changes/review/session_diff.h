// The difference between two agents with the same base: what one has that the other lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/review/patch.h"

namespace warren {

// A file or link that differs, by its path in both trees; a rename is a deletion and an addition.
struct SessionDifference {
  std::string path;
  std::optional<Attributes> before;  // in the first agent; nullopt if it is not there
  std::optional<Attributes> after;   // in the second

  char letter() const { return !before ? 'A' : !after ? 'D' : 'M'; }
};

// kInvalid if they have different bases; the message names both.
Status check_same_base(const AgentOverlay& one, const AgentOverlay& other);

// Sorted by path. Only what one of them has changed is compared, so the cost is that of their changes. Without what is
// in a .git of the base. kInvalid if they have different bases.
Result<std::vector<SessionDifference>> diff_sessions(const AgentOverlay& before, const AgentOverlay& after);

// From the first to the second. A file over limits::kPatchFileBytes is only mentioned.
Status write_session_patch(const AgentOverlay& before, const AgentOverlay& after,
                           const std::vector<SessionDifference>& differences, const PatchSink& sink,
                           BinaryContent binary = BinaryContent::kIncluded);

}  // namespace warren
