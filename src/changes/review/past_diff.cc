#include "changes/review/past_diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "agent/checkpoints/checkpoints.h"
#include "agent/checkpoints/working_copy.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "fs/walked_dirs.h"
#include "text/diff/git_patch.h"

namespace warren {
namespace {

class TreeComparison {
 public:
  TreeComparison(FileSystem& before, FileSystem& after)
      : before_(before), after_(after), walked_before_(before), walked_after_(after) {}

  // Only directories among `touched` are entered, and only they are listed.
  void look_only_in(const std::vector<Inode>& touched) {
    touched_.emplace();
    for (Inode node : touched) touched_->insert(node.value);
  }
  Status compare_trees(const std::string& path, Inode dir_before, Inode dir_after, int depth = 0);
  Status compare_paths(const std::set<std::string>& paths);
  Result<std::vector<TreeChange>> take();

 private:
  static Result<std::optional<Attributes>> find(FileSystem& fs, const std::string& path);
  Status compare(const std::string& path, const std::optional<Attributes>& before,
                 const std::optional<Attributes>& after);
  Status add_tree(FileSystem& fs, const std::string& path, TreeChangeKind kind);
  Status add_if_different(const std::string& path, const std::string& path_before, const Attributes& before,
                          const Attributes& after, TreeChangeKind kind);
  Status find_renames();

  FileSystem& before_;
  FileSystem& after_;
  WalkedDirs walked_before_;
  WalkedDirs walked_after_;
  std::optional<std::unordered_set<std::uint64_t>> touched_;
  std::map<std::string, Attributes> deleted_;
  std::map<std::string, Attributes> added_;
  std::vector<TreeChange> changes_;
};

Result<std::optional<Attributes>> TreeComparison::find(FileSystem& fs, const std::string& path) {
  Result<Attributes> found = lstat(fs, path);
  if (found.ok()) return std::optional(*found);
  Code code = found.error().code();
  if (code == Code::kNotFound || code == Code::kNotDirectory) return std::optional<Attributes>();
  return std::move(found).take_error();
}

Status TreeComparison::add_tree(FileSystem& fs, const std::string& path, TreeChangeKind kind) {
  auto& into = kind == TreeChangeKind::kAdded ? added_ : deleted_;
  return walk(fs, path,
              [&](const WalkEntry& entry) -> Result<WalkNext> {
                into.emplace(entry.path, entry.attributes);
                return WalkNext::kContinue;
              },
              {.follow = Follow::kNo});
}

Status TreeComparison::add_if_different(const std::string& path, const std::string& path_before,
                                        const Attributes& before, const Attributes& after, TreeChangeKind kind) {
  TreeChange change{.kind = kind, .path = path, .base_path = path_before, .before = before, .after = after};
  if (before.is_file()) {
    bool is_same = WARREN_TRY(has_same_content(before_, before, after_, after));
    change.is_content_changed = !is_same;
  } else if (before.is_symlink()) {
    std::string was = WARREN_TRY(read_link(before_, path_before));
    std::string is = WARREN_TRY(read_link(after_, path));
    change.is_content_changed = was != is;
  } else if (!before.is_directory()) {
    change.is_content_changed = before.rdev != after.rdev;
  }
  XattrMap was = WARREN_TRY(read_xattrs(before_, before.inode));
  XattrMap is = WARREN_TRY(read_xattrs(after_, after.inode));
  change.is_metadata_changed = !has_same_mode(before, after) || was != is;
  if (kind == TreeChangeKind::kRenamed || change.is_content_changed || change.is_metadata_changed) {
    changes_.push_back(std::move(change));
  }
  return Ok{};
}

Status TreeComparison::compare(const std::string& path, const std::optional<Attributes>& before,
                               const std::optional<Attributes>& after) {
  bool is_other = before && after && (before->mode & S_IFMT) != (after->mode & S_IFMT);
  if (before && (!after || is_other)) WARREN_TRY(add_tree(before_, path, TreeChangeKind::kDeleted));
  if (after && (!before || is_other)) WARREN_TRY(add_tree(after_, path, TreeChangeKind::kAdded));
  if (!before || !after || is_other) return Ok{};
  bool is_untouched = touched_ && before->inode == after->inode && !touched_->contains(after->inode.value);
  if (is_untouched) return Ok{};
  return add_if_different(path, path, *before, *after, TreeChangeKind::kModified);
}

Status TreeComparison::compare_trees(const std::string& path, Inode dir_before, Inode dir_after, int depth) {
  if (depth > limits::kTreeDepth) return Error(Code::kLimit, "directories are nested too deep");
  WARREN_TRY(walked_before_.enter(dir_before, path));
  WARREN_TRY(walked_after_.enter(dir_after, path));
  std::map<std::string, std::pair<std::optional<Attributes>, std::optional<Attributes>>> names;
  std::vector<NamedAttributes> was = WARREN_TRY(read_dir_plus(before_, path));
  std::vector<NamedAttributes> is = WARREN_TRY(read_dir_plus(after_, path));
  for (NamedAttributes& one : was) names[one.name].first = one.attributes;
  for (NamedAttributes& one : is) names[one.name].second = one.attributes;
  for (const auto& [name, pair] : names) {
    std::string below = join_path(path, name);
    const auto& [before, after] = pair;
    WARREN_TRY(compare(below, before, after));
    if (!before || !after || !before->is_directory() || !after->is_directory()) continue;
    bool may_differ = !touched_ || before->inode != after->inode || touched_->contains(after->inode.value);
    if (may_differ) WARREN_TRY(compare_trees(below, before->inode, after->inode, depth + 1));
  }
  return Ok{};
}

Status TreeComparison::compare_paths(const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    std::optional<Attributes> before = WARREN_TRY(find(before_, path));
    std::optional<Attributes> after = WARREN_TRY(find(after_, path));
    WARREN_TRY(compare(path, before, after));
  }
  return Ok{};
}

// A node that is gone here and new there was renamed. What moved with a directory is not listed.
Status TreeComparison::find_renames() {
  std::unordered_map<std::uint64_t, std::string> gone;
  for (const auto& [path, node] : deleted_) gone.emplace(node.inode.value, path);
  std::map<std::string, std::string> moved;  // directories, from new to old path
  for (auto at = added_.begin(); at != added_.end();) {
    auto found = gone.find(at->second.inode.value);
    if (found == gone.end() || (deleted_.at(found->second).mode & S_IFMT) != (at->second.mode & S_IFMT)) {
      ++at;
      continue;
    }
    const std::string& from = found->second;
    Attributes before = deleted_.at(from);
    auto parent = moved.find(std::string(directory_of(at->first)));
    bool moved_along = parent != moved.end() && join_path(parent->second, base_name(at->first)) == from;
    WARREN_TRY(add_if_different(at->first, from, before, at->second,
                                moved_along ? TreeChangeKind::kModified : TreeChangeKind::kRenamed));
    if (before.is_directory()) moved.emplace(at->first, from);
    deleted_.erase(from);
    gone.erase(found);
    at = added_.erase(at);
  }
  return Ok{};
}

Result<std::vector<TreeChange>> TreeComparison::take() {
  WARREN_TRY(find_renames());
  for (auto& [path, node] : deleted_) {
    changes_.push_back({.kind = TreeChangeKind::kDeleted, .path = path, .base_path = path, .before = node});
  }
  for (auto& [path, node] : added_) {
    changes_.push_back({.kind = TreeChangeKind::kAdded, .path = path, .after = node});
  }
  std::sort(changes_.begin(), changes_.end(), [](const TreeChange& a, const TreeChange& b) {
    return a.path != b.path ? a.path < b.path : a.kind < b.kind;
  });
  return std::move(changes_);
}

// With a base: whatever differs from it at one of the moments.
Result<std::set<std::string>> changed_paths(Agent& before, Agent& after) {
  std::set<std::string> paths;
  for (Agent* agent : {&before, &after}) {
    std::optional<AgentOverlay> overlay = agent->overlay();
    std::vector<TreeChange> changes = WARREN_TRY(list_changes(*overlay));
    for (TreeChange& change : changes) {
      if (!change.base_path.empty()) paths.insert(std::move(change.base_path));
      paths.insert(std::move(change.path));
    }
  }
  return paths;
}

Status compare_keys(Agent& before, Agent& after, PastDiff& diff) {
  std::map<std::string, std::pair<std::optional<std::string>, std::optional<std::string>>> pairs;
  std::vector<KvEntry> was = WARREN_TRY(before.kv().list({}));
  std::vector<KvEntry> is = WARREN_TRY(after.kv().list({}));
  for (KvEntry& entry : was) pairs[entry.key].first = std::move(entry.value);
  for (KvEntry& entry : is) pairs[entry.key].second = std::move(entry.value);
  for (const auto& [key, pair] : pairs) {
    if (!pair.first) diff.keys_added.push_back(key);
    else if (!pair.second) diff.keys_deleted.push_back(key);
    else if (*pair.first != *pair.second) diff.keys_changed.push_back(key);
  }
  return Ok{};
}

// Mounts that the agent's rows cover, at the moment that it shows.
Result<std::vector<std::string>> list_covered_now(Agent& agent) {
  auto unit = WARREN_TRY(agent.fs().begin(UnitAccess::kRead));
  return MountedRows(agent.store()).list_covered();
}

Status compare_mount(Agent& before, Agent& after, const std::string& mount, PastDiff& diff) {
  std::map<std::string, std::pair<std::optional<MountedRow>, std::optional<MountedRow>>> pairs;
  for (Agent* agent : {&before, &after}) {
    auto unit = WARREN_TRY(agent->fs().begin(UnitAccess::kRead));
    std::vector<MountedRow> rows = WARREN_TRY(MountedRows(agent->store()).list(mount));
    for (MountedRow& row : rows) {
      if (is_folder_marker(row.key)) continue;
      auto& pair = pairs[row.key];
      (agent == &before ? pair.first : pair.second) = std::move(row);
    }
  }
  for (const auto& [key, pair] : pairs) {
    const auto& [was, is] = pair;
    if (was && is && is_same_copy(*was, *is)) continue;
    TreeChangeKind kind = !was ? TreeChangeKind::kAdded : !is ? TreeChangeKind::kDeleted : TreeChangeKind::kModified;
    diff.mounted.push_back({.kind = kind, .path = join_path(mount, key)});
  }
  return Ok{};
}

Status compare_mounts(Agent& before, Agent& after, const std::vector<std::string>* copied, PastDiff& diff) {
  std::vector<std::string> first = WARREN_TRY(list_covered_now(before));
  std::vector<std::string> second;
  if (copied == nullptr) second = WARREN_TRY(list_covered_now(after));
  else second = *copied;
  for (const std::string& mount : first) {
    if (std::ranges::count(second, mount)) WARREN_TRY(compare_mount(before, after, mount, diff));
  }
  return Ok{};
}

// What of a change a patch can show.
struct PatchPart {
  std::string path_before;
  std::string path_after;
  std::optional<Attributes> before;
  std::optional<Attributes> after;
};

bool is_patchable(const std::optional<Attributes>& node) { return node && (node->is_file() || node->is_symlink()); }

Result<std::vector<PatchPart>> list_patch_parts(const PastDiff& diff) {
  std::set<std::string_view> listed;
  for (const TreeChange& change : diff.changes) listed.insert(change.path);
  std::vector<PatchPart> parts;
  for (const TreeChange& change : diff.changes) {
    PatchPart part{.path_before = change.base_path, .path_after = change.path, .before = {}, .after = {}};
    if (is_patchable(change.before)) part.before = change.before;
    if (is_patchable(change.after)) part.after = change.after;
    if (part.before || part.after) parts.push_back(std::move(part));
    if (change.kind != TreeChangeKind::kRenamed || !change.after->is_directory()) continue;
    WARREN_TRY(walk(diff.agents.after->fs(), change.path, [&](const WalkEntry& entry) -> Result<WalkNext> {
      if (entry.path == change.path) return WalkNext::kContinue;
      if (listed.contains(entry.path)) return WalkNext::kSkip;
      std::string from = change.base_path + entry.path.substr(change.path.size());
      if (is_patchable(entry.attributes)) parts.push_back({from, entry.path, entry.attributes, entry.attributes});
      return WalkNext::kContinue;
    }));
  }
  return parts;
}

Result<std::string> load_for_patch(FileSystem& fs, const std::string& path, const Attributes& node) {
  if (node.is_symlink()) return read_link(fs, path);
  if (node.size > limits::kPatchFileBytes) return std::string(1, '\0') + path;  // binary, and never the same
  return read_file(fs, path, {.size_bytes_max = limits::kPatchFileBytes});
}

}  // namespace

Status write_past_patch(const PastDiff& diff, const PatchSink& sink) {
  std::vector<PatchPart> parts = WARREN_TRY(list_patch_parts(diff));
  for (const PatchPart& part : parts) {
    FilePatch patch;
    std::string was;
    std::string is;
    if (part.before) {
      was = WARREN_TRY(load_for_patch(diff.agents.before->fs(), part.path_before, *part.before));
      patch.before = PatchSide{.path = part.path_before, .mode = part.before->mode, .content = was};
    }
    if (part.after) {
      is = WARREN_TRY(load_for_patch(diff.agents.after->fs(), part.path_after, *part.after));
      if (part.before && part.after->size > limits::kPatchFileBytes) is += '+';
      patch.after = PatchSide{.path = part.path_after, .mode = part.after->mode, .content = is};
    }
    std::string text = git_patch(patch, {}, BinaryContent::kMentioned);
    if (!text.empty()) WARREN_TRY(sink(text));
  }
  return Ok{};
}

Result<PastDiff> diff_checkpoints(const std::string& id_or_path, std::int64_t from, std::optional<std::int64_t> to,
                                  Clock& clock, const std::vector<std::string>& copied) {
  PastDiff diff;
  AgentOptions options{.id_or_path = id_or_path, .mode = OpenMode::kReadOnly};
  options.checkpoint = from;
  diff.agents.before = WARREN_TRY(Agent::open(options, clock));
  options.checkpoint = to;
  diff.agents.after = WARREN_TRY(Agent::open(options, clock));
  Agent& before = *diff.agents.before;
  Agent& after = *diff.agents.after;
  TreeComparison comparison(before.fs(), after.fs());
  if (after.overlay() && before.overlay()) {
    std::set<std::string> paths = WARREN_TRY(changed_paths(before, after));
    WARREN_TRY(comparison.compare_paths(paths));
  } else {
    PastChanges changed = WARREN_TRY(list_past_changes(after, from, to));
    if (!changed.is_everything) {
      std::vector<Inode> touched = WARREN_TRY(list_touched_dirs(after, changed));
      comparison.look_only_in(touched);
    }
    WARREN_TRY(comparison.compare_trees("/", kRootInode, kRootInode));
  }
  diff.changes = WARREN_TRY(comparison.take());
  WARREN_TRY(compare_keys(before, after, diff));
  WARREN_TRY(compare_mounts(before, after, to ? nullptr : &copied, diff));
  return diff;
}

}  // namespace warren
