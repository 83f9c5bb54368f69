#include "session/session_summary.h"

#include <set>

#include "changes/commits/commits.h"
#include "changes/commits/ignored.h"
#include "changes/commits/stray_commits.h"
#include "changes/git/git_folder.h"
#include "changes/left_out.h"
#include "changes/left_with_agent.h"
#include "changes/review/patch.h"
#include "changes/upper/open_overlay.h"

namespace warren {

namespace {

// Of a renamed file, or one in a renamed directory, the name in the base counts too: whoever edits it there must merge.
Result<std::vector<std::string>> list_files(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  std::set<std::string> paths;
  for (const TreeChange& change : changes) {
    if (!change.node().is_directory()) paths.insert(change.path);
  }
  for (const ChangedFile& file : WARREN_TRY(list_changed_files(overlay, changes))) {
    if (file.before) paths.insert(file.before->path);
    if (file.after) paths.insert(file.after->path);
  }
  return std::vector<std::string>(paths.begin(), paths.end());
}

}  // namespace

Result<SessionSummary> summarise_session(const SessionDir& session, Clock& clock) {
  OverlayAgent opened = WARREN_TRY(open_overlay(session.file(), OpenMode::kReadOnly, clock));
  std::vector<TreeChange> changes = WARREN_TRY(list_changes(opened.overlay));
  std::vector<TreeChange> in_git = WARREN_TRY(leave_out_git(opened.overlay, changes, {}));
  Result<std::optional<AgentCommits>> commits = std::optional<AgentCommits>();
  if (!in_git.empty()) commits = find_commits(opened.overlay);
  IgnoredPaths ignored;
  if (commits.ok() && *commits) ignored = WARREN_TRY(find_ignored(opened.overlay, changes, Rules::kAgent));
  leave_out(changes, [&](const TreeChange& change) { return ignored.contains(change.path); });
  SessionSummary summary{.changes = summarise(changes), .files = {}, .left = {}};
  summary.left = WARREN_TRY(list_left_with_agent(*opened.agent, opened.overlay, in_git));
  summary.files = WARREN_TRY(list_files(opened.overlay, changes));
  if (in_git.empty()) return summary;
  if (!ignored.empty()) summary.left.emplace_back(kIgnoredFiles);
  summary.has_commits = commits.ok() && *commits && !(*commits)->brings.empty();
  bool is_empty_else = summary.is_empty();
  Result<StrayObjects> strays = find_stray_objects(opened.overlay, in_git);
  // What cannot be looked at counts.
  summary.has_git_objects = !strays.ok() || strays->are_alone;
  if (!commits.ok() || !strays.ok()) summary.left.emplace_back("commits that cannot be looked at");
  else if (strays->commits > 0) summary.left.emplace_back("commits on no branch");
  else if (summary.has_git_objects && is_empty_else) summary.left.emplace_back("staged content of git");
  bool may_be_taken_back = summary.is_empty() && commits.ok() && *commits;
  if (may_be_taken_back && WARREN_TRY(has_taken_back(opened.overlay, **commits, changes, in_git)))
    summary.left.emplace_back("changes after its commits");
  return summary;
}

}  // namespace warren
