#include "changes/apply/resolve.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/sessions.h"
#include "changes/review/remarks.h"
#include "fs/encrypted.h"
#include "os/files/host_files.h"

namespace warren {

Result<ResolvedConflicts> resolve_conflicts(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                            ConflictPolicy policy, MergedContents& contents) {
  std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay, changes));
  ResolvedConflicts resolved;
  if (policy == ConflictPolicy::kKeep) {
    resolved.left = std::move(conflicts);
    return resolved;
  }
  for (ApplyConflict& conflict : conflicts) {
    auto change = std::find_if(changes.begin(), changes.end(), [&](const TreeChange& one) {
      return one.path == conflict.path && one.kind != TreeChangeKind::kDeleted;
    });
    std::optional<MergedChange> merged;
    if (change != changes.end()) merged = WARREN_TRY(merge_change_or_mark(overlay, *change));
    bool is_file = change != changes.end() && change->after && change->after->is_file();
    if (!merged && is_file) conflict.is_encrypted = WARREN_TRY(is_encrypted(overlay.upper.fs(), change->after->inode));
    if (!merged || (!merged->is_clean && policy != ConflictPolicy::kMark)) {
      resolved.left.push_back(std::move(conflict));
      continue;
    }
    resolved.merged.push_back(conflict.path);
    if (!merged->is_clean) resolved.marked.push_back(conflict.path);
    bool has_markers = !merged->is_clean;
    contents.insert_or_assign(
        conflict.path, MergedContent{.text = std::move(merged->text), .has_unseen = true, .has_markers = has_markers});
  }
  return resolved;
}

Result<std::vector<SelfRunningFile>> list_self_running(const AgentOverlay& overlay,
                                                       const std::vector<TreeChange>& changes) {
  std::vector<SelfRunningFile> found;
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  for (const TreeChange& change : changes) {
    Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
    if (!remarks.runs.empty()) found.push_back({change.path, std::move(remarks.runs), remarks.is_in_git});
  }
  return found;
}

bool is_home_directory(const std::string& base) {
  Result<std::string> home = home_directory();
  if (!home.ok()) return false;
  Result<std::string> canonical = canonical_host_path(*home);
  return canonical.ok() && *canonical == base;
}

}  // namespace warren
