#include "changes/review/parts.h"

#include <algorithm>
#include <utility>

#include "base/binary.h"
#include "base/limits.h"
#include "changes/conflicts.h"
#include "fs/path_ops.h"
#include "text/diff/unified.h"

namespace warren {
namespace {

constexpr std::string_view kNotText = "it is not a changed text file";

// A file that the base has as the agent saw it.
Result<LoadedParts> load_plain(const AgentOverlay& overlay, const TreeChange& change) {
  ChangeParts parts;
  parts.before = WARREN_TRY(read_file(overlay.base, change.base_path));
  parts.after = WARREN_TRY(read_file(overlay.merged, change.path));
  if (is_binary(parts.before) || is_binary(parts.after)) return LoadedParts{.parts = {}, .why_none = kNotText};
  parts.merge = merge_parts(parts.before, parts.after, parts.before);
  return LoadedParts{.parts = std::move(parts), .why_none = {}};
}

Result<LoadedParts> load_conflict(const AgentOverlay& overlay, const TreeChange& change) {
  FoundVersions found = WARREN_TRY(find_versions(overlay, change));
  if (!found.texts) return LoadedParts{.parts = {}, .why_none = found.why_none};
  ChangeParts parts;
  parts.is_in_conflict = true;
  parts.ancestor = std::move(found.texts->ancestor);
  parts.before = std::move(found.texts->base);
  parts.after = std::move(found.texts->agent);
  parts.merge = merge_parts(parts.ancestor, parts.after, parts.before);
  return LoadedParts{.parts = std::move(parts), .why_none = {}};
}

}  // namespace

Result<LoadedParts> load_parts(const AgentOverlay& overlay, const TreeChange& change) {
  bool is_pair = change.kind == TreeChangeKind::kModified && change.before && change.after &&
                 change.before->is_file() && change.after->is_file() &&
                 change.before->size <= limits::kPatchFileBytes && change.after->size <= limits::kPatchFileBytes;
  if (!is_pair) return LoadedParts{.parts = {}, .why_none = kNotText};
  bool is_as_seen = WARREN_TRY(is_as_agent_saw(overlay, change));
  LoadedParts loaded = WARREN_TRY(is_as_seen ? load_plain(overlay, change) : load_conflict(overlay, change));
  if (!loaded.parts) return loaded;
  for (const MergePart& part : loaded.parts->merge) {
    if (part.side == MergeSide::kTheirs) continue;
    loaded.parts->list.push_back(
        {.hunk = {.before = part.theirs, .after = part.ours}, .is_in_conflict = part.side == MergeSide::kBoth});
  }
  if (loaded.parts->list.empty()) return LoadedParts{.parts = {}, .why_none = "the base has the same text"};
  return loaded;
}

std::size_t count_in_conflict(const ChangeParts& parts) {
  return static_cast<std::size_t>(std::ranges::count(parts.list, true, &FilePart::is_in_conflict));
}

std::string pick_parts(const ChangeParts& parts, const std::vector<PartChoice>& choices) {
  std::vector<MergePart> picked = parts.merge;
  std::size_t next = 0;
  for (MergePart& part : picked) {
    if (part.side == MergeSide::kTheirs) continue;
    PartChoice choice = next < choices.size() ? choices[next] : PartChoice::kLeft;
    bool is_marked = choice == PartChoice::kMarked && part.side == MergeSide::kBoth;
    part.side = is_marked ? MergeSide::kBoth : choice == PartChoice::kTaken ? MergeSide::kOurs : MergeSide::kTheirs;
    ++next;
  }
  return write_merge(parts.ancestor, parts.after, parts.before, picked, kMergeLabels);
}

std::string show_part(const ChangeParts& parts, std::size_t part) {
  std::vector<PartChoice> only(parts.list.size(), PartChoice::kLeft);
  only[part] = PartChoice::kTaken;
  Hunk hunk = parts.list[part].hunk;
  hunk.after.begin = hunk.before.begin;  // nothing before it is changed
  return unified_hunks(parts.before, pick_parts(parts, only), {hunk});
}

void take_parts(const TreeChange& change, const ChangeParts& parts, const std::vector<PartChoice>& choices,
                ApplyOptions& options) {
  bool has_left = std::ranges::count(choices, PartChoice::kLeft) > 0;
  if (!has_left && !parts.is_in_conflict) return;
  MergedContent content{.text = pick_parts(parts, choices),
                        .is_partial = has_left,
                        .has_unseen = parts.is_in_conflict,
                        .has_markers = std::ranges::count(choices, PartChoice::kMarked) > 0};
  options.contents.insert_or_assign(change.path, std::move(content));
}

}  // namespace warren
