#include "changes/plan.h"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/perform.h"
#include "os/error.h"

namespace warren {
namespace {

// HostFs folds the host's number into its own; these bits are the host's.
constexpr std::uint64_t kHostBits = (std::uint64_t{1} << 56) - 1;

bool is_what_was_listed(const struct stat& info, const Attributes& node) {
  if ((info.st_mode & S_IFMT) != (node.mode & S_IFMT)) return false;
  if (S_ISDIR(info.st_mode)) return true;
  bool is_same_number = (info.st_ino & kHostBits) == (node.inode.value & kHostBits);
  return is_same_number && static_cast<std::uint64_t>(info.st_size) == node.size &&
         info.st_mtim.tv_sec == node.mtime.seconds && info.st_mtim.tv_nsec == node.mtime.nanoseconds;
}

Error other_device(std::string_view path) {
  return {Code::kCrossDevice, fmt::format("{} is on another filesystem than the base's top", quote(path)),
          "apply works within one filesystem; `warren apply --to DIR` writes the changes elsewhere"};
}

int phase_of(const Step& step) {
  if (step.kind == StepKind::kTakeOut) return 0;
  bool closes_dir =
      step.kind == StepKind::kSetMetadata && step.old_node.type == S_IFDIR && (step.before.mode & 0200U) != 0;
  return closes_dir ? 2 : 1;
}

}  // namespace

Result<HostNode> Planner::known_node(const TreeChange& change) {
  std::optional<struct stat> info = WARREN_TRY(base_.find(change.base_path));
  if (!info || !is_what_was_listed(*info, *change.before)) {
    return Error(Code::kConflict, fmt::format("{} was changed in the base at this moment", quote(change.base_path)),
                 "try again");
  }
  if (info->st_dev != base_.device()) return other_device(change.base_path);
  return HostNode::of(*info);
}

// The nearest directory above that is there already.
Status Planner::check_parent(std::string_view path) {
  std::string at(split_parent(path).parent);
  while (true) {
    auto moved = renamed_dirs_.find(at);
    std::optional<struct stat> info = WARREN_TRY(base_.find(moved != renamed_dirs_.end() ? moved->second : at));
    if (info) return info->st_dev == base_.device() ? Status(Ok{}) : Status(other_device(at));
    if (at == "/") return Ok{};
    at = std::string(split_parent(at).parent);
  }
}

Result<HostNode> Planner::stage(const TreeChange& change, std::uint64_t slot, const std::string* content) {
  std::string at = slot_path(intent_, slot);
  WARREN_TRY(stager_.write(change, at, content));
  struct stat info = WARREN_TRY(base_.get(at));
  if (info.st_dev != base_.device()) return other_device("/" + intent_.staging);
  return HostNode::of(info);
}

void Planner::count_deleted(const std::vector<TreeChange>& changes) {
  for (const TreeChange& change : changes) {
    if (change.kind == TreeChangeKind::kDeleted && change.before->is_directory()) deleted_dirs_[change.base_path] = 0;
    bool is_moved_dir = change.kind == TreeChangeKind::kRenamed && change.after->is_directory();
    if (is_moved_dir) renamed_dirs_.emplace(change.path, change.base_path);
  }
  for (const TreeChange& change : changes) {
    if (change.kind != TreeChangeKind::kDeleted) continue;
    for (std::string_view at = change.base_path;; at = split_parent(at).parent) {
      auto dir = deleted_dirs_.find(std::string(at));
      if (dir != deleted_dirs_.end()) ++dir->second;
      else if (at != change.base_path) break;  // what is between is no longer part of what goes
      if (at == "/") break;
    }
  }
}

Result<Intent> Planner::plan(const std::vector<TreeChange>& changes, const MergedContents& contents) {
  count_deleted(changes);
  for (const TreeChange& change : changes) {
    auto merged = contents.find(change.path);
    WARREN_TRY(add(change, merged == contents.end() ? nullptr : &merged->second));
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
    }
    intent_.changes.push_back(std::move(applied));
  }
  WARREN_TRY(stager_.finish_dirs());
  sort_steps();
  WARREN_TRY(sync());
  return std::move(intent_);
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
  if (deleted_dirs_.contains(parent)) return Ok{};  // goes with it
  Step step{.kind = StepKind::kTakeOut, .path = change.base_path, .slot = next_slot_++};
  step.old_node = WARREN_TRY(known_node(change));
  auto dir = deleted_dirs_.find(change.base_path);
  step.nodes = dir == deleted_dirs_.end() ? 0 : dir->second;
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

Status Planner::add_renamed(const TreeChange& change, const std::string* content) {
  WARREN_TRY(check_parent(change.path));
  Step out{.kind = StepKind::kTakeOut, .path = change.base_path, .slot = next_slot_++};
  out.old_node = WARREN_TRY(known_node(change));
  intent_.steps.push_back(out);
  if (change.is_content_changed || content != nullptr) return add_new(change, content);
  Step in{.kind = StepKind::kPutIn, .path = change.path, .slot = out.slot};
  in.new_node = out.old_node;
  intent_.steps.push_back(std::move(in));
  if (change.is_metadata_changed) return add_metadata(change, out.old_node);
  return Ok{};
}

Status Planner::add_metadata(const TreeChange& change, const HostNode& old_node) {
  Step step{.kind = StepKind::kSetMetadata, .path = change.path};
  step.old_node = old_node;
  step.before = WARREN_TRY(base_.get_metadata(change.base_path));
  step.after = WARREN_TRY(stager_.metadata_of(change));
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

Status Planner::add_modified(const TreeChange& change, const std::string* content) {
  HostNode old_node = WARREN_TRY(known_node(change));
  WARREN_TRY(check_parent(change.path));
  if (!change.is_content_changed && content == nullptr) return add_metadata(change, old_node);
  if (change.has_hidden_names && change.after->is_file()) return add_overwrite(change, old_node, content);
  Step step{.kind = StepKind::kReplace, .path = change.path, .slot = next_slot_++, .backup = next_slot_++};
  step.old_node = old_node;
  step.new_node = WARREN_TRY(stage(change, step.slot, content));
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

// The old content is copied too: it is written over.
Status Planner::add_overwrite(const TreeChange& change, const HostNode& old_node, const std::string* content) {
  Step step{.kind = StepKind::kOverwrite, .path = change.path, .slot = next_slot_++, .backup = next_slot_++};
  step.old_node = old_node;
  step.new_node = WARREN_TRY(stage(change, step.slot, content));
  Fd from = WARREN_TRY(base_.open_file(change.base_path, O_RDONLY));
  Fd to = WARREN_TRY(base_.create_file(slot_path(intent_, step.backup)));
  WARREN_TRY(copy_host_content(from.get(), to.get()).within(quote(change.path)));
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
    WARREN_TRY(stager_.write(change, at, content));
    if (is_dir) staged_dirs_.emplace(change.path, std::move(at));
    return Ok{};
  }
  WARREN_TRY(check_parent(change.path));
  Step step{.kind = StepKind::kPutIn, .path = change.path, .slot = next_slot_++};
  step.new_node = WARREN_TRY(stage(change, step.slot, content));
  if (is_dir) staged_dirs_.emplace(change.path, slot_path(intent_, step.slot));
  intent_.steps.push_back(std::move(step));
  return Ok{};
}

void Planner::sort_steps() {
  std::stable_sort(intent_.steps.begin(), intent_.steps.end(), [](const Step& a, const Step& b) {
    int phase_a = phase_of(a);
    int phase_b = phase_of(b);
    if (phase_a != phase_b) return phase_a < phase_b;
    return phase_a == 1 ? a.path < b.path : a.path > b.path;
  });
}

Status Planner::sync() {
  constexpr std::size_t kOneByOne = 32;
  if (intent_.steps.size() > kOneByOne || !staged_dirs_.empty()) return base_.sync_all();
  for (const Step& step : intent_.steps) {
    for (std::uint64_t slot : {step.slot, step.backup}) {
      std::optional<struct stat> info = WARREN_TRY(base_.find(slot_path(intent_, slot)));
      if (!info || !S_ISREG(info->st_mode)) continue;
      Result<Fd> fd = base_.open_file(slot_path(intent_, slot), O_RDONLY);
      if (!fd.ok()) return base_.sync_all();  // a mode that keeps ourselves out
      if (::fsync(fd->get()) != 0) return system_error(errno, "sync new content");
    }
  }
  WARREN_TRY(base_.sync_dir("/" + intent_.staging));
  return base_.sync_dir("/");
}

}  // namespace warren
