#include "changes/review/patch.h"

#include <algorithm>
#include <unordered_set>

#include "base/binary.h"
#include "base/limits.h"
#include "changes/conflicts.h"
#include "changes/upper/tree_finder.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "text/diff/diff.h"
#include "text/diff/git_patch.h"

namespace warren {
namespace {

bool is_in_patch(const Attributes& node) { return node.is_file() || node.is_symlink(); }

// Adds the files that moved with a renamed directory and have no change of their own.
Status add_moved_files(const AgentOverlay& overlay, const TreeChange& dir,
                       const std::unordered_set<std::string_view>& changed, std::vector<ChangedFile>& files) {
  return walk(overlay.merged, dir.path, [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (entry.path == dir.path) return WalkNext::kContinue;
    if (changed.contains(entry.path)) return WalkNext::kSkip;
    if (!is_in_patch(entry.attributes)) return WalkNext::kContinue;
    std::string from = dir.base_path + entry.path.substr(dir.path.size());
    files.push_back({ChangedFile::Side{std::move(from), entry.attributes},
                     ChangedFile::Side{entry.path, entry.attributes}, nullptr});
    return WalkNext::kContinue;
  });
}

// False for a directory whose metadata changed: files that moved with a directory above it are still listed.
bool hides_content(const TreeChange& change) {
  bool is_plain_dir = change.after && change.after->is_directory() && change.kind == TreeChangeKind::kModified;
  return change.after && !is_plain_dir;
}

// The content of both sides of one file.
struct Loaded {
  std::string before;
  std::string after;
  bool is_placeholder = false;  // only says that the file differs
};

Result<std::string> load_side(FileSystem& fs, const ChangedFile::Side& side) {
  if (side.node.is_symlink()) return read_link(fs, side.path);
  return read_file(fs, side.path, {.size_bytes_max = limits::kPatchFileBytes});
}

bool is_too_large(const std::optional<ChangedFile::Side>& side) {
  return side && side->node.is_file() && side->node.size > limits::kPatchFileBytes;
}

Result<Loaded> load(const AgentOverlay& overlay, const ChangedFile& file) {
  Loaded loaded;
  if (is_too_large(file.before) || is_too_large(file.after)) {
    // Placeholders that differ and count as binary: the patch only says that binary files differ.
    loaded = {.before = std::string("\0-", 2), .after = std::string("\0+", 2), .is_placeholder = true};
    return loaded;
  }
  if (file.after) loaded.after = WARREN_TRY(load_side(overlay.merged, *file.after));
  if (!file.before) return loaded;
  Result<std::string> before =
      file.change != nullptr ? read_compared(overlay, *file.change) : load_side(overlay.base, *file.before);
  // Of a binary file the patch can still say that it differs.
  loaded.is_placeholder = !before.ok() && before.error().code() == Code::kConflict && is_binary(loaded.after);
  loaded.before = loaded.is_placeholder ? std::string("\0-", 2) : WARREN_TRY(std::move(before));
  return loaded;
}

PatchSide patch_side(const ChangedFile::Side& side, std::string_view content) {
  return {.path = side.path, .mode = side.node.mode, .content = content};
}

bool moved_untouched(const ChangedFile& file) {
  return file.is_renamed() && file.before->node.inode == file.after->node.inode;
}

}  // namespace

Result<std::vector<ChangedFile>> list_changed_files(const AgentOverlay& overlay,
                                                    const std::vector<TreeChange>& changes) {
  std::vector<TreeChange> all = WARREN_TRY(list_changes(overlay));  // including those that were not selected
  std::unordered_set<std::string_view> changed;
  for (const TreeChange& change : all) {
    if (hides_content(change)) changed.insert(change.path);
  }
  std::vector<ChangedFile> files;
  for (const TreeChange& change : changes) {
    bool is_moved_dir = change.kind == TreeChangeKind::kRenamed && change.after->is_directory();
    if (is_moved_dir) WARREN_TRY(add_moved_files(overlay, change, changed, files));
    ChangedFile file;
    if (change.before && is_in_patch(*change.before)) file.before = ChangedFile::Side{change.base_path, *change.before};
    if (change.after && is_in_patch(*change.after)) file.after = ChangedFile::Side{change.path, *change.after};
    if (change.kind == TreeChangeKind::kAdded) file.before.reset();
    bool is_gone_from_base = change.kind == TreeChangeKind::kAdded && change.seen && !change.place.empty();
    if (is_gone_from_base && is_in_patch(*change.seen) && file.after)
      file.before = ChangedFile::Side{change.place, *change.seen};
    if (file.before && change.seen && change.before) file.before->node.mode = change.seen->mode;
    file.change = &change;
    if (file.before || file.after) files.push_back(std::move(file));
  }
  std::stable_sort(files.begin(), files.end(), [](const ChangedFile& a, const ChangedFile& b) {
    if (a.after.has_value() != b.after.has_value()) return !a.after;
    return a.path() < b.path();
  });
  return files;
}

Status write_patch(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, const PatchSink& sink,
                   BinaryContent binary) {
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(overlay, changes));
  for (const ChangedFile& file : files) {
    Loaded loaded;
    if (!moved_untouched(file)) loaded = WARREN_TRY(load(overlay, file));
    bool is_unchanged = file.before && file.after && !file.is_renamed() && loaded.before == loaded.after &&
                        git_mode(file.before->node.mode) == git_mode(file.after->node.mode);
    if (is_unchanged) continue;  // only the base has changed
    FilePatch patch;
    if (file.before) patch.before = patch_side(*file.before, loaded.before);
    if (file.after) patch.after = patch_side(*file.after, loaded.after);
    WARREN_TRY(sink(git_patch(patch, {}, loaded.is_placeholder ? BinaryContent::kMentioned : binary)));
  }
  return Ok{};
}

Result<std::vector<FileCounts>> count_lines_changed(const AgentOverlay& overlay,
                                                    const std::vector<TreeChange>& changes) {
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(overlay, changes));
  std::vector<FileCounts> counts;
  for (ChangedFile& file : files) {
    FileCounts count;
    if (!moved_untouched(file)) {
      Loaded loaded = WARREN_TRY(load(overlay, file));
      count.is_binary = loaded.before != loaded.after && (is_binary(loaded.before) || is_binary(loaded.after));
      if (!count.is_binary) {
        LineCounts lines = count_changes(diff_lines(loaded.before, loaded.after));
        count.added = lines.added;
        count.deleted = lines.deleted;
      }
    }
    count.file = std::move(file);
    counts.push_back(std::move(count));
  }
  return counts;
}

}  // namespace warren
