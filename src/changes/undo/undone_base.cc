#include "changes/undo/undone_base.h"

#include <string_view>
#include <vector>

#include "base/path.h"
#include "fs/overlay/upper_layer.h"

namespace warren {

UndoneBase::UndoneBase(const Intent& intent) {
  const std::vector<Step>& steps = intent.steps;
  std::unordered_map<std::uint64_t, std::string> taken;  // slot → the name that the apply had given to the node
  for (const Step& step : steps) {
    if (step.kind == StepKind::kTakeOut) taken.emplace(step.slot, step.path);
  }
  for (const Step& step : steps) {
    if (step.kind == StepKind::kTakeOut) removed_.emplace(step.path, step.old_node);
    auto from = step.kind == StepKind::kPutIn ? taken.find(step.slot) : taken.end();
    if (from != taken.end()) renamed_back_.emplace(from->second, step.path);
    if (step.kind == StepKind::kPutIn || step.kind == StepKind::kReplace) written_[step.path] = step.new_node;
  }
  for (const AppliedChange& change : intent.changes) {
    if (change.kind == TreeChangeKind::kAdded) written_.try_emplace(change.path, change.written);
  }
  for (const Step& step : steps) {
    if (step.kind != StepKind::kSetMetadata && step.kind != StepKind::kOverwrite) continue;
    HostNode& node = written_.try_emplace(step.path, step.old_node).first->second;
    node.mtime = step.after.mtime;
    if (step.kind == StepKind::kOverwrite) node.size = step.new_node.size;
  }
  for (const Step& step : steps) {
    if (step.kind == StepKind::kReplace || step.kind == StepKind::kOverwrite) undone_[step.path] = step.old_node;
  }
  for (const AppliedChange& change : intent.changes) {
    if (change.brings_unseen) (change.is_merged ? merged_ : replaced_).insert(change.path);
    if (change.own) marked_.insert(change.path);
    if (change.own && change.path == change.base_path) own_.emplace(change.path, &*change.own);
  }
  // A file that was renamed and changed has a different node under each name.
  for (const AppliedChange& change : intent.changes) {
    if (change.kind != TreeChangeKind::kRenamed) continue;
    auto removed = removed_.find(change.base_path);
    if (removed == removed_.end() || !written_.contains(change.path)) continue;
    renamed_back_.try_emplace(change.base_path, change.path);
    undone_.try_emplace(change.path, removed->second);
  }
  for (const auto& [from, to] : renamed_back_) back_from_.emplace(to, from);
}

const std::string* UndoneBase::find_renamed(const std::string& path) const {
  auto found = back_from_.find(path);
  return found == back_from_.end() ? nullptr : &found->second;
}

bool UndoneBase::was_renamed(const std::string& path) const {
  for (std::string_view at = path; at.size() > 1; at = split_parent(at).parent) {
    if (find_renamed(std::string(at)) != nullptr) return true;
  }
  return false;
}

bool UndoneBase::has_removed(const std::string& path) const {
  for (std::string_view at = path; at.size() > 1; at = split_parent(at).parent) {
    if (removed_.contains(std::string(at))) return true;
    const std::string* renamed = find_renamed(std::string(at));
    if (renamed != nullptr) return has_removed_below(*renamed, path.substr(at.size()));
  }
  return false;
}

// What was merged as a whole is in the agent's file, too, which is compared with what the apply wrote. With conflict
// markers, it was merged as a whole, also if the agent has no such file.
bool UndoneBase::is_half_merged(const std::string& path, const std::optional<Attributes>& recorded) const {
  auto undone = undone_.find(path);
  if (!merged_.contains(path) || undone == undone_.end()) return false;
  if (!recorded && own_.contains(path)) return false;
  const HostNode& node = undone->second;
  bool is_as_written = recorded && recorded->inode.value == (kBaseBit | node.inode) && recorded->size == node.size &&
                       recorded->mtime == node.mtime;
  return !is_as_written;
}

std::optional<UndoneBase::Known> UndoneBase::find_known(const std::string& path, const std::optional<Attributes>& now,
                                                        const std::optional<Attributes>& recorded) const {
  bool is_as_left = now ? has_written(path, *now) : has_removed(path);
  if (!is_as_left || is_half_merged(path, recorded)) return std::nullopt;
  if (!replaced_.contains(path) && !marked_.contains(path)) return Known{now};
  if (!now) return Known{recorded};  // the agent knew something there that was deleted in the base
  Attributes other = *now;           // a version that the base does not have
  other.mtime.nanoseconds ^= 1;
  if (now->is_directory()) other.inode = {};
  return Known{other};
}

const AppliedChange::Own* UndoneBase::find_own(const std::string& path) const {
  auto found = own_.find(path);
  return found == own_.end() ? nullptr : found->second;
}

bool UndoneBase::has_written(const std::string& path, const Attributes& now) const {
  auto found = written_.find(path);
  if (found == written_.end()) return false;
  const HostNode& node = found->second;
  if (now.is_directory()) return now.host_inode == node.inode;  // its entries are compared by name
  return now.host_inode == node.inode && now.size == node.size && now.mtime == node.mtime;
}

bool UndoneBase::has_removed_below(const std::string& dir, const std::string& rest) const {
  std::string path = dir + rest;
  for (std::string_view at = path; at.size() > dir.size(); at = split_parent(at).parent) {
    if (removed_.contains(std::string(at))) return true;
  }
  return false;
}

}  // namespace warren
