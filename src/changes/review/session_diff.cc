#include "changes/review/session_diff.h"

#include <set>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "changes/git/git_folder.h"
#include "changes/upper/tree_finder.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

// Where the files and links are that this agent has changed, moved or deleted.
Status add_touched(const AgentOverlay& overlay, std::set<std::string>& paths) {
  std::vector<TreeChange> changes = WARREN_TRY(list_changes(overlay));
  WARREN_TRY(leave_out_git(overlay, changes, {}));
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(overlay, changes));
  for (const ChangedFile& file : files) {
    if (file.before) paths.insert(file.before->path);
    if (file.after) paths.insert(file.after->path);
  }
  return Ok{};
}

std::optional<Attributes> only_in_patches(std::optional<Attributes> node) {
  if (node && (node->is_file() || node->is_symlink())) return node;
  return std::nullopt;
}

// For git: kind, content and whether it is a program.
Result<bool> is_same_file(const AgentOverlay& before, const AgentOverlay& after, const SessionDifference& one) {
  if (!one.before || !one.after) return !one.before && !one.after;
  if (git_mode(one.before->mode) != git_mode(one.after->mode)) return false;
  if (one.before->is_symlink()) {
    std::string was = WARREN_TRY(read_link(before.merged, one.path));
    std::string is = WARREN_TRY(read_link(after.merged, one.path));
    return was == is;
  }
  if (one.before->size != one.after->size) return false;
  return has_same_content(before.merged, one.path, after.merged, one.path);
}

// The content of one side; `is_large` is set instead for a file that is too large.
Result<std::string> load_one(FileSystem& fs, const std::string& path, const Attributes& node, bool& is_large) {
  if (node.is_symlink()) return read_link(fs, path);
  if (node.size > limits::kPatchFileBytes) {
    is_large = true;
    return std::string();
  }
  return read_file(fs, path, {.size_bytes_max = limits::kPatchFileBytes});
}

}  // namespace

Status check_same_base(const AgentOverlay& one, const AgentOverlay& other) {
  if (one.base_path == other.base_path) return Ok{};
  return Error(Code::kInvalid,
               fmt::format("they have different bases: {} and {}", quote(one.base_path), quote(other.base_path)));
}

Result<std::vector<SessionDifference>> diff_sessions(const AgentOverlay& before, const AgentOverlay& after) {
  WARREN_TRY(check_same_base(before, after));
  std::set<std::string> paths;
  WARREN_TRY(add_touched(before, paths));
  WARREN_TRY(add_touched(after, paths));
  TreeFinder in_before(before.merged);
  TreeFinder in_after(after.merged);
  std::vector<SessionDifference> differences;
  for (const std::string& path : paths) {
    SessionDifference one{.path = path, .before = {}, .after = {}};
    one.before = only_in_patches(WARREN_TRY(in_before.find(path)));
    one.after = only_in_patches(WARREN_TRY(in_after.find(path)));
    if (!WARREN_TRY(is_same_file(before, after, one))) differences.push_back(std::move(one));
  }
  return differences;
}

Status write_session_patch(const AgentOverlay& before, const AgentOverlay& after,
                           const std::vector<SessionDifference>& differences, const PatchSink& sink,
                           BinaryContent binary) {
  for (const SessionDifference& one : differences) {
    bool is_large = false;
    std::string was;
    std::string is;
    FilePatch patch;
    if (one.before) was = WARREN_TRY(load_one(before.merged, one.path, *one.before, is_large));
    if (one.after) is = WARREN_TRY(load_one(after.merged, one.path, *one.after, is_large));
    if (is_large) {  // placeholders that differ and count as binary
      was = std::string("\0-", 2);
      is = std::string("\0+", 2);
    }
    if (one.before) patch.before = PatchSide{.path = one.path, .mode = one.before->mode, .content = was};
    if (one.after) patch.after = PatchSide{.path = one.path, .mode = one.after->mode, .content = is};
    WARREN_TRY(sink(git_patch(patch, {}, is_large ? BinaryContent::kMentioned : binary)));
  }
  return Ok{};
}

}  // namespace warren
