#include "changes/review/parts.h"

#include <algorithm>

#include "base/binary.h"
#include "base/limits.h"
#include "changes/conflicts.h"
#include "fs/path_ops.h"
#include "text/diff/pick_hunks.h"

namespace warren {

Result<std::optional<ChangeParts>> load_parts(const AgentOverlay& overlay, const TreeChange& change) {
  std::optional<ChangeParts> none;
  bool is_pair = change.kind == TreeChangeKind::kModified && change.before && change.after &&
                 change.before->is_file() && change.after->is_file() &&
                 change.before->size <= limits::kPatchFileBytes && change.after->size <= limits::kPatchFileBytes;
  if (!is_pair || !WARREN_TRY(is_as_agent_saw(overlay, change))) return none;
  ChangeParts parts;
  parts.before = WARREN_TRY(read_file(overlay.base, change.base_path));
  parts.after = WARREN_TRY(read_file(overlay.merged, change.path));
  if (is_binary(parts.before) || is_binary(parts.after)) return none;
  parts.hunks = diff_lines(parts.before, parts.after);
  if (parts.hunks.empty()) return none;
  return std::optional(std::move(parts));
}

void take_parts(const TreeChange& change, const ChangeParts& parts, const std::vector<bool>& is_taken,
                ApplyOptions& options) {
  bool is_whole = std::find(is_taken.begin(), is_taken.end(), false) == is_taken.end();
  if (is_whole) return;
  options.contents.insert_or_assign(change.path, pick_hunks(parts.before, parts.after, parts.hunks, is_taken));
  options.partial.insert(change.path);
}

}  // namespace warren
