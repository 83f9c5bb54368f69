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

// The same for the changes between two moments of an agent. They are not going to be applied, so nothing is said about
// conflicts, privileges or what git ignores.
void print_past_overview(Output& out, const std::vector<TreeChange>& changes, Fold fold);

}  // namespace warren::cli
