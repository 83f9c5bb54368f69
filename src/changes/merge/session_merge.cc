#include "changes/merge/session_merge.h"

#include <algorithm>

#include "changes/apply/permission.h"
#include "changes/commits/merge_commits.h"
#include "changes/git/git_folder.h"
#include "changes/merge/session_merger.h"
#include "changes/review/session_diff.h"

namespace warren {

bool SessionMerge::is_settled() const {
  return std::all_of(conflicts.begin(), conflicts.end(), [](const SessionConflict& one) { return one.is_settled; });
}

Result<SessionMerge> merge_into(const AgentOverlay& first, const AgentOverlay& second,
                                const SessionMergeOptions& options) {
  WARREN_TRY(check_same_base(first, second));
  std::vector<TreeChange> theirs = WARREN_TRY(list_changes(second));
  std::vector<TreeChange> all = theirs;
  leave_out_agent_folders(theirs, {});
  WARREN_TRY(leave_out_git(second, theirs, {}));
  SessionMerger merger(first, second, options);
  SessionMerge report = WARREN_TRY(merger.run(theirs));
  report.branches = WARREN_TRY(take_over_commits(first, second, all, options.second));
  return report;
}

}  // namespace warren
