// The overview that diff prints for people.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "cli/show/output.h"

namespace warren::cli {

enum class Fold { kNo, kYes };

// One line for each change, or for a whole directory of them. `named` are the PATH arguments.
Status print_overview(Output& out, const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                      const std::vector<std::string>& named, Fold fold);

// The same without remarks about conflicts, privileges and what git ignores: for the changes between two moments of an
// agent, and for those that an apply would write.
void print_past_overview(Output& out, const std::vector<TreeChange>& changes, Fold fold);

}  // namespace warren::cli
