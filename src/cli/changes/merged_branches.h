// Branches that `warren merge` has put into a session: apply brings them beside the session's own commits.
#pragma once

#include <vector>

#include "cli/changes/apply_commits.h"

namespace warren::cli {

// Fills plan.others, after plan.import and plan.taken. A branch is brought under its own name if the base has none of
// that name; another one is left in plan.found.brings, which are named.
Status plan_merged_branches(CommitsPlan& plan, OverlayAgent& opened, const std::vector<TreeChange>& all);
// Adds what these branches contain to `where`, and what they contain besides to plan.beyond.
Status compare_with_merged(CommitsPlan& plan, std::vector<TreeChange>& changes,
                           std::vector<CommitImport::Where>& where);
// For a list that is shown: sets TreeChange::is_in_commits, also for what these branches contain.
Status mark_sorted(CommitImport& import, std::vector<TreeChange>& all);
Status mark_by_merged(const AgentOverlay& overlay, const AgentCommits& found, CommitImport& import,
                      std::vector<TreeChange>& all);
Status bring_merged_branches(CommitsPlan& plan);
void print_merged_branches(Output& out, const Arguments& args, const CommitsPlan& plan);

}  // namespace warren::cli
