// The parts of a changed text file, which can be applied one by one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/apply/apply.h"
#include "changes/changes.h"
#include "text/diff/diff.h"

namespace warren {

struct ChangeParts {
  std::string before;
  std::string after;
  std::vector<Hunk> hunks;  // from diff_lines, at least one
};

// nullopt for a change without parts: anything but a modified text file that the base still has as the agent saw it.
Result<std::optional<ChangeParts>> load_parts(const AgentOverlay& overlay, const TreeChange& change);

// Puts the content with the taken parts into the options; what was not taken stays a change of the agent. Does nothing
// if all are taken.
void take_parts(const TreeChange& change, const ChangeParts& parts, const std::vector<bool>& is_taken,
                ApplyOptions& options);

}  // namespace warren
