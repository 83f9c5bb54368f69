// Whether the base is still what the agent saw when it changed it, and bringing both together if not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

struct ApplyConflict {
  std::string path;
  std::string why;  // "it was changed in the base"
};

// Looks at the base's nodes that the changes are about. A node is as it was seen if number, kind, size,
// mtime, mode and owner are the same, or its content is that of the kept ancestor. Of what nothing was
// recorded (names deleted together with a moved directory, files made anew under an old name) it must not
// have changed after the agent's own change.
Result<std::vector<ApplyConflict>> find_conflicts(const AgentOverlay& overlay, const std::vector<TreeChange>& changes);

// What the agent and the host made of a text file, in one; nullopt where that is not possible without a
// person: no ancestor was kept, it is no text, or both changed the same lines.
Result<std::optional<std::string>> merge_change(const AgentOverlay& overlay, const TreeChange& change);

}  // namespace warren
