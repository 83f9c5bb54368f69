#include "changes/apply/resolve.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/sessions.h"
#include "changes/review/remarks.h"
#include "fs/encrypted.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kTriedMerges = 1000;  // only to say whether a merge would help

// What a merge would make of it; nullopt if it cannot be merged. To delete a file is never to merge it.
Result<std::optional<MergedChange>> try_merge(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                              ApplyConflict& conflict) {
  std::optional<MergedChange> merged;
  if (conflict.is_deletion) return merged;
  auto change = std::find_if(changes.begin(), changes.end(), [&](const TreeChange& one) {
    return one.path == conflict.path && one.kind != TreeChangeKind::kDeleted;
  });
  if (change == changes.end()) return merged;
  merged = WARREN_TRY(merge_change_or_mark(overlay, *change));
  if (merged) {
    conflict.merge = merged->is_clean ? MergeResult::kClean : MergeResult::kMarked;
    return merged;
  }
  FoundVersions found = WARREN_TRY(find_versions(overlay, *change));
  conflict.why_not_merged = found.why_none;
  bool is_file = change->after && change->after->is_file();
  if (is_file) conflict.is_encrypted = WARREN_TRY(is_encrypted(overlay.upper.fs(), change->after->inode));
  return merged;
}

}  // namespace

Result<ResolvedConflicts> resolve_conflicts(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                            ConflictPolicy policy, MergedContents& contents) {
  std::vector<ApplyConflict> conflicts = WARREN_TRY(find_conflicts(overlay, changes));
  ResolvedConflicts resolved;
  if (policy == ConflictPolicy::kKeep) {
    for (std::size_t i = 0; i < conflicts.size() && i < kTriedMerges; ++i)
      WARREN_TRY(try_merge(overlay, changes, conflicts[i]));
    resolved.left = std::move(conflicts);
    return resolved;
  }
  for (ApplyConflict& conflict : conflicts) {
    std::optional<MergedChange> merged = WARREN_TRY(try_merge(overlay, changes, conflict));
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
