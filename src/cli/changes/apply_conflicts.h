// What apply does about conflicts: it merges, marks or reports them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "changes/apply/apply.h"
#include "changes/apply/resolve.h"
#include "changes/conflicts.h"
#include "cli/changes/apply_consent.h"
#include "cli/context.h"

namespace warren::cli {

// Merges with --merge, and marks what cannot be merged with --conflict=markers; the results go to `contents`.
Result<ResolvedConflicts> resolve_conflicts(const Arguments& args, const AgentOverlay& overlay,
                                            const std::vector<TreeChange>& changes, MergedContents& contents);

enum class HasCommits { kNo, kYes };  // to bring

// With what helps in this case.
void print_conflicts(Context& context, const Arguments& args, const std::vector<ApplyConflict>& conflicts,
                     const std::vector<ApplyQuestion>& questions, HasCommits has_commits);

// What apply would ask, in a dry run.
void print_questions(Output& out, const std::vector<ApplyQuestion>& questions);
Json questions_json(const std::vector<ApplyQuestion>& questions);

Option conflict_option();

}  // namespace warren::cli
