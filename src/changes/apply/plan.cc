#include "changes/apply/plan.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/apply/step_tree.h"
#include "os/error.h"

namespace warren {
namespace {

bool is_unchanged(const struct stat& info, const Attributes& node) {
  if ((info.st_mode & S_IFMT) != (node.mode & S_IFMT)) return false;
  if (S_ISDIR(info.st_mode)) return true;
  return info.st_ino == node.host_inode && static_cast<std::uint64_t>(info.st_size) == node.size &&
         info.st_mtim.tv_sec == node.mtime.seconds && info.st_mtim.tv_nsec == node.mtime.nanoseconds;
}

Error in_the_way(std::string_view path, std::string_view what) {
  return {Code::kCrossDevice, fmt::format("{} {}", quote(path), what),
          "leave this change out by naming the others, or unmount it first; or write the changes elsewhere with "
          "`warren apply --to DIR`"};
}

}  // namespace

Result<HostNode> Planner::known_node(const TreeChange& change) {
  std::optional<struct stat> info = WARREN_TRY(base_.find(change.base_path));
  if (!info || !is_unchanged(*info, *change.before)) {
    return Error(Code::kConflict, fmt::format("{} was just changed in the base", quote(change.base_path)), "try again");
  }
  return HostNode::of(*info);
}

// The nearest existing directory above the path, by its current base path.
Result<std::string> Planner::dir_around(std::string_view path) {
  for (std::string at(split_parent(path).parent);; at = std::string(split_parent(at).parent)) {
    auto moved = renamed_dirs_.find(at);
    std::string there = moved != renamed_dirs_.end() ? moved->second : at;
    std::optional<struct stat> info = WARREN_TRY(base_.find(there));
    if (info && S_ISDIR(info->st_mode)) return there;
    if (at == "/") return at;
  }
}

// Slots on another filesystem are found by path, so no directory above its mount point may move.
Result<std::uint64_t> Planner::new_slot(std::string_view dir) {
  std::string top = WARREN_TRY(staging_.top_of(dir));
  for (std::string_view at = top; at != "/"; at = split_parent(at).parent) {
    if (leaving_dirs_.contains(std::string(at))) {
      return in_the_way(at, "would be moved, but another filesystem that would be changed is mounted in it");
    }
  }
  std::uint64_t slot = WARREN_TRY(staging_.new_slot(dir));
  intent_.tops = staging_.tops();
  return slot;
}

Result<bool> Planner::is_mount_point(std::string_view base_path) {
  if (base_path == "/") return true;
  std::uint64_t own = WARREN_TRY(base_.get_mount(base_path));
  std::uint64_t around = WARREN_TRY(base_.get_mount(split_parent(base_path).parent));
  return own != around;
}

Status Planner::check_movable(std::string_view base_path) {
  bool is_fixed = WARREN_TRY(is_mount_point(base_path));
  if (!is_fixed) return Ok{};
  return in_the_way(base_path, "is a mount point, which cannot be deleted or renamed");
}

Status Planner::write(const TreeChange& change, const std::string& at, const std::string* content) {
  if (staging_.is_dry_run()) return Ok{};
  WARREN_TRY(stager_.write(change, at, content));
  struct stat info = WARREN_TRY(base_.get(at));
  written_ = HostNode::of(info);
  return Ok{};
}

Result<HostNode> Planner::stage(const TreeChange& change, std::uint64_t slot, const std::string* content) {
  WARREN_TRY(write(change, slot_path(intent_, slot), content));
  return written_;
}

void Planner::count_deleted(const std::vector<TreeChange>& changes) {
  for (const TreeChange& change : changes) {
    if (change.kind == TreeChangeKind::kDeleted && change.before->is_directory()) deleted_dirs_[change.base_path] = 0;
    bool is_moved_dir = change.kind == TreeChangeKind::kRenamed && change.after->is_directory();
    if (is_moved_dir) renamed_dirs_.emplace(change.path, change.base_path);
    if (change.kind == TreeChangeKind::kRenamed) moved_out_.insert(change.base_path);
    bool is_dir = change.before && change.before->is_directory();
    if (is_dir && (is_moved_dir || change.kind == TreeChangeKind::kDeleted)) leaving_dirs_.insert(change.base_path);
  }
  for (const TreeChange& change : changes) {
    if (change.kind != TreeChangeKind::kDeleted) continue;
    for (std::string_view at = change.base_path;; at = split_parent(at).parent) {
      auto dir = deleted_dirs_.find(std::string(at));
      if (dir != deleted_dirs_.end()) ++dir->second;
      else if (at != change.base_path) break;  // a directory that is not deleted: nothing above it counts this node
      if (at == "/") break;
    }
  }
}

Result<Intent> Planner::plan(const std::vector<TreeChange>& changes, const MergedContents& contents) {
  WARREN_TRY(add_all(changes, contents));
  WARREN_TRY(stager_.finish_dirs());
  for (Step& step : intent_.steps) {
    bool is_staged = step.new_node.inode != 0 && WARREN_TRY(base_.find(slot_path(intent_, step.slot)));
    if (!is_staged) continue;
    step.content = WARREN_TRY(fingerprint_step(base_, step.kind, slot_path(intent_, step.slot)));
    bool is_new_dir = step.kind == StepKind::kPutIn && staged_dirs_.contains(step.path);
    if (!is_new_dir) continue;
    HostTree::TreeDigest staged = WARREN_TRY(base_.digest_tree(slot_path(intent_, step.slot)));
    step.tree = staged.value;
  }
  sort_steps(intent_.steps);
  WARREN_TRY(sync());
  return std::move(intent_);
}

Status Planner::rehearse(const std::vector<TreeChange>& changes, const MergedContents& contents) {
  return add_all(changes, contents);
}

Status Planner::add_all(const std::vector<TreeChange>& changes, const MergedContents& contents) {
  count_deleted(changes);
  for (const TreeChange& change : changes) {
    auto merged = contents.find(change.path);
    written_ = {};
    bool is_merged = merged != contents.end();
    if (is_merged && merged->second.is_partial) stager_.set_partial(change.path);
    WARREN_TRY(add(change, is_merged ? &merged->second.text : nullptr));
    AppliedChange applied;
    applied.kind = change.kind;
    applied.path = change.path;
    applied.base_path = change.base_path;
    applied.type = change.node().mode & S_IFMT;
    if (change.after) {
      applied.upper = change.after->inode;
      applied.size = change.after->size;
      applied.mtime = change.after->mtime;
      applied.ctime = change.after->ctime;
      applied.written = written_;
      applied.is_partial = stager_.is_partial(change.path);
      applied.is_merged = is_merged;
      applied.has_unseen = is_merged && merged->second.has_unseen;
    }
    intent_.changes.push_back(std::move(applied));
  }
  return Ok{};
}

Status Planner::add(const TreeChange& change, const std::string* content) {
  switch (change.kind) {
    case TreeChangeKind::kDeleted: return add_deleted(change);
    case TreeChangeKind::kRenamed: return add_renamed(change, content);
    case TreeChangeKind::kModified: return add_modified(change, content);
    case TreeChangeKind::kAdded: return add_new(change, content);
  }
  return Ok{};
}

Status Planner::add_deleted(const TreeChange& change) {
  std::string parent(split_parent(change.base_path).parent);
  WARREN_TRY(check_movable(change.base_path));
  HostNode old_node = WARREN_TRY(known_node(change));
  if (deleted_dirs_.contains(parent)) return Ok{};  // removed together with its directory
  Step step{.kind = StepKind::kTakeOut, .path = change.base_path};
  step.slot = WARREN_TRY(new_slot(parent));
  step.old_node = old_node;
  auto dir = deleted_dirs_.find(change.base_path);
  if (dir != deleted_dirs_.end()) {
    HostTree::TreeDigest now = WARREN_TRY(base_.digest_tree(change.base_path, moved_out_));
    if (now.nodes != dir->second) {
      return Error(Code::kConflict,
                   fmt::format("{} was just changed in the base, or contains files that the agent cannot see",
                               quote(change.base_path)),
                   "try again, or leave it out by naming the others");
    }
    step.tree = now.value;
  }
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

Status Planner::add_renamed(const TreeChange& change, const std::string* content) {
  WARREN_TRY(check_movable(change.base_path));
  std::string from(split_parent(change.base_path).parent);
  std::string to = WARREN_TRY(dir_around(change.path));
  std::string from_top = WARREN_TRY(staging_.top_of(from));
  std::string to_top = WARREN_TRY(staging_.top_of(to));
  bool is_crossing = from_top != to_top;
  if (is_crossing && change.after->is_directory()) {
    return in_the_way(change.path, "is a directory that was renamed from another filesystem");
  }
  Step out{.kind = StepKind::kTakeOut, .path = change.base_path};
  out.slot = WARREN_TRY(new_slot(from));
  out.old_node = WARREN_TRY(known_node(change));
  intent_.steps.push_back(out);
  bool is_other_content = change.is_content_changed || content != nullptr;
  bool stays_same_node = change.has_hidden_names && change.after->is_file();
  if (is_crossing || (is_other_content && !stays_same_node)) return add_new(change, content);
  Step in{.kind = StepKind::kPutIn, .path = change.path, .slot = out.slot};
  in.new_node = out.old_node;
  written_ = out.old_node;
  intent_.steps.push_back(std::move(in));
  if (is_other_content) return add_overwrite(change, out.old_node, content);
  if (change.is_metadata_changed) return add_metadata(change, out.old_node);
  return Ok{};
}

Status Planner::add_metadata(const TreeChange& change, const HostNode& old_node) {
  Step step{.kind = StepKind::kSetMetadata, .path = change.path};
  step.old_node = old_node;
  step.before = WARREN_TRY(base_.get_metadata(change.base_path));
  step.after = WARREN_TRY(stager_.metadata_of(change));
  written_ = old_node;
  written_.mtime = step.after.mtime;
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

Status Planner::add_modified(const TreeChange& change, const std::string* content) {
  HostNode old_node = WARREN_TRY(known_node(change));
  if (!change.is_content_changed && content == nullptr) return add_metadata(change, old_node);
  bool is_fixed = WARREN_TRY(is_mount_point(change.base_path));
  bool stays_same_node = change.has_hidden_names || is_fixed;
  if (stays_same_node && change.after->is_file()) return add_overwrite(change, old_node, content);
  std::string dir(split_parent(change.base_path).parent);
  Step step{.kind = StepKind::kReplace, .path = change.path};
  step.slot = WARREN_TRY(new_slot(dir));
  step.backup = WARREN_TRY(new_slot(dir));
  step.old_node = old_node;
  step.new_node = WARREN_TRY(stage(change, step.slot, content));
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

Status Planner::back_up(const TreeChange& change, std::uint64_t slot) {
  Status writable = base_.check_overwritable(change.base_path);
  if (!writable.ok()) {
    return std::move(writable).take_error().with_hint(
        "it has other names, so it must be written in place; make it writable, or leave it out by naming the others");
  }
  Fd from = WARREN_TRY(base_.open_file(change.base_path, O_RDONLY));
  if (staging_.is_dry_run()) return Ok{};
  Fd to = WARREN_TRY(base_.create_file(slot_path(intent_, slot)));
  WARREN_TRY(copy_host_content(from.get(), to.get()).within(quote(change.path)));
  return Ok{};
}

// Also backs up the old content, which is overwritten in place.
Status Planner::add_overwrite(const TreeChange& change, const HostNode& old_node, const std::string* content) {
  std::string dir(split_parent(change.base_path).parent);
  Step step{.kind = StepKind::kOverwrite, .path = change.path};
  step.slot = WARREN_TRY(new_slot(dir));
  step.backup = WARREN_TRY(new_slot(dir));
  step.old_node = old_node;
  step.new_node = WARREN_TRY(stage(change, step.slot, content));
  WARREN_TRY(back_up(change, step.backup));
  step.before = WARREN_TRY(base_.get_metadata(change.base_path));
  step.after = WARREN_TRY(stager_.metadata_of(change));
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

Status Planner::add_new(const TreeChange& change, const std::string* content) {
  SplitParent parts = split_parent(change.path);
  auto inside = staged_dirs_.find(std::string(parts.parent));
  bool is_dir = change.after->is_directory();
  if (inside != staged_dirs_.end()) {
    std::string at = join_path(inside->second, parts.name);
    WARREN_TRY(write(change, at, content));
    if (is_dir) staged_dirs_.emplace(change.path, std::move(at));
    return Ok{};
  }
  std::string dir = WARREN_TRY(dir_around(change.path));
  Step step{.kind = StepKind::kPutIn, .path = change.path};
  step.slot = WARREN_TRY(new_slot(dir));
  step.new_node = WARREN_TRY(stage(change, step.slot, content));
  if (is_dir) staged_dirs_.emplace(change.path, slot_path(intent_, step.slot));
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

Status Planner::sync() {
  constexpr std::size_t kOneByOne = 32;
  if (intent_.steps.size() > kOneByOne || !staged_dirs_.empty()) return sync_all(base_, intent_);
  for (const Step& step : intent_.steps) {
    for (std::uint64_t slot : {step.slot, step.backup}) {
      std::optional<struct stat> info = WARREN_TRY(base_.find(slot_path(intent_, slot)));
      if (!info || !S_ISREG(info->st_mode)) continue;
      Result<Fd> fd = base_.open_file(slot_path(intent_, slot), O_RDONLY);
      if (!fd.ok()) return sync_all(base_, intent_);  // its mode does not let us open it
      if (::fsync(fd->get()) != 0) return system_error(errno, "sync new content");
    }
  }
  for (const std::string& top : tops_of(intent_)) {
    WARREN_TRY(base_.sync_dir(join_path(top, intent_.staging)));
    WARREN_TRY(base_.sync_dir(top));
  }
  return Ok{};
}

}  // namespace warren
