#include "changes/undo/inverse.h"

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fcntl.h>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/apply/step_tree.h"
#include "os/files/copy_tree.h"

namespace warren {
namespace {

// Builds the inverse of a kept apply. Paths of its steps are those after the step or, where a node leaves, before it;
// so nodes below a directory that was renamed are addressed by the old name, and the usual order of steps holds.
class InverseBuilder {
 public:
  InverseBuilder(HostTree& base, HostTree& kept, const Intent& done, Staging& staging)
      : base_(base), kept_(kept), done_(done), staging_(staging) {
    intent_.staging = staging.name();
    std::map<std::uint64_t, std::string> taken;  // slot → where the node was
    for (const Step& step : done.steps) {
      if (step.kind != StepKind::kTakeOut) continue;
      taken.emplace(step.slot, step.path);
      left_paths_.emplace(step.path, "");
    }
    for (const Step& step : done.steps) {
      if (step.kind == StepKind::kSetMetadata || step.kind == StepKind::kOverwrite) in_place_.emplace(step.path, &step);
      if (step.kind != StepKind::kPutIn) continue;
      put_paths_.insert(step.path);
      auto from = taken.find(step.slot);
      if (from == taken.end()) continue;
      renamed_slots_.insert(step.slot);
      old_paths_.emplace(step.path, from->second);
      left_paths_[from->second] = step.path;
    }
  }

  Status build() {
    for (const Step& step : done_.steps) {
      if (step.kind == StepKind::kPutIn) WARREN_TRY(add_leaving(step));
    }
    for (const Step& step : done_.steps) WARREN_TRY(add(step));
    sort_steps(intent_.steps);
    for (const AppliedChange& change : done_.changes) {
      if (change.has_unseen) add_unseen(change);
      if (change.kind != TreeChangeKind::kRenamed) continue;
      intent_.changes.push_back(
          {.kind = change.kind, .path = change.base_path, .base_path = change.path, .type = change.type});
    }
    return Ok{};
  }

  Intent take_intent() { return std::move(intent_); }

  // By path, one for each.
  std::vector<ApplyConflict> list_conflicts() const {
    std::vector<ApplyConflict> list;
    for (const auto& [path, why] : conflicts_) list.push_back({path, why});
    return list;
  }

 private:
  Status add(const Step& step) {
    switch (step.kind) {
      case StepKind::kTakeOut: return add_returning(step);
      case StepKind::kPutIn: return Ok{};  // add_leaving
      case StepKind::kReplace: return add_replace(step);
      case StepKind::kSetMetadata: return add_metadata(step);
      case StepKind::kOverwrite: return add_overwrite(step);
    }
    return Error(Code::kCorrupt, "an unknown step");
  }

  // An undo of an undo takes away again what the apply had replaced. What was merged is in conflict with either
  // version; the agent got its own back with the first undo.
  void add_unseen(const AppliedChange& change) {
    bool is_undone = change.brings_unseen;
    intent_.changes.push_back({.kind = TreeChangeKind::kModified,
                               .path = change.base_path.empty() ? old_path(change.path) : change.base_path,
                               .base_path = change.path,
                               .type = change.type,
                               .is_merged = change.is_merged,
                               .has_unseen = true,
                               .brings_unseen = change.is_merged || !is_undone,
                               .own = is_undone ? std::nullopt : change.own});
  }

  void conflict(const std::string& path, std::string_view why) { conflicts_.emplace(path, why); }

  // Where a node will be once every renamed one is back.
  std::string old_path(const std::string& path) const {
    for (std::string_view at = path; at != "/"; at = split_parent(at).parent) {
      auto renamed = old_paths_.find(std::string(at));
      if (renamed != old_paths_.end()) return renamed->second + path.substr(at.size());
    }
    return path;
  }

  // The node that the apply left at this path: with the content and mode that it wrote or, where those are not
  // recorded, the same type, size and time. Not the same inode, because an undo restores copies, and not the same time,
  // because git writes files again as they were.
  Result<std::optional<struct stat>> find_unchanged(const Step& step, const HostNode& node) {
    const std::string& path = step.path;
    std::optional<struct stat> there = WARREN_TRY(base_.find(path));
    if (!there) return there;
    HostNode now = HostNode::of(*there);
    if (step.content != 0) {
      if (now.type != node.type) return std::optional<struct stat>();
      std::uint64_t content = WARREN_TRY(fingerprint_step(base_, step.kind, path, put_paths_));
      return content == step.content ? there : std::optional<struct stat>();
    }
    HostNode expected = node;
    auto in_place = in_place_.find(path);
    if (in_place != in_place_.end() && node.type != S_IFDIR) {
      expected.mtime = in_place->second->after.mtime;
      if (in_place->second->kind == StepKind::kOverwrite) expected.size = in_place->second->new_node.size;
    }
    bool is_same = now.type == expected.type && now.size == expected.size && now.mtime == expected.mtime;
    return is_same ? there : std::optional<struct stat>();
  }

  // A slot on the mount of the nearest directory that exists now.
  Result<std::uint64_t> new_slot(const std::string& path) {
    std::string dir(split_parent(path).parent);
    while (dir != "/" && !WARREN_TRY(base_.find(dir))) dir = std::string(split_parent(dir).parent);
    std::uint64_t slot = WARREN_TRY(staging_.new_slot(dir));
    intent_.tops = staging_.tops();
    return slot;
  }

  // A removed file comes back itself if it was moved to what is kept: other agents know it by its number. Both names
  // are of one file until the undo has ended and what was kept goes. So not for a replaced file, of which a session in
  // use may have a copy: that would not follow a file with two names.
  Result<bool> link_removed(std::uint64_t kept_slot, const HostNode& was, const std::string& at) {
    struct stat info = WARREN_TRY(kept_.get(kept_slot_path(kept_slot)));
    bool is_file = S_ISREG(info.st_mode) || S_ISLNK(info.st_mode);
    bool is_itself = is_file && info.st_nlink == 1 && was.is_same(info);
    return is_itself && link_between(kept_, kept_slot_path(kept_slot), base_, at).ok();
  }

  // Stages a kept node in a slot of the base, as a copy. Names that were one file, `was`, are one file again.
  Status stage(std::uint64_t kept_slot, const HostNode& was, Step& back) {
    std::string at = slot_path(intent_, back.slot);
    auto [first, is_first] = staged_.try_emplace({was.device, was.inode}, at);
    bool is_linked = !is_first && was.type != S_IFDIR;
    if (is_linked) {
      Status linked = base_.link(first->second, at);
      is_linked = linked.ok() || linked.error().code() != Code::kCrossDevice;  // one filesystem can be mounted twice
      if (is_linked) WARREN_TRY(std::move(linked));
    }
    if (!is_linked) is_linked = back.kind == StepKind::kPutIn && WARREN_TRY(link_removed(kept_slot, was, at));
    if (!is_linked) WARREN_TRY(copy_tree(kept_, kept_slot_path(kept_slot), base_, at));
    struct stat info = WARREN_TRY(base_.get(at));
    back.new_node = HostNode::of(info);
    back.content = WARREN_TRY(fingerprint_step(base_, back.kind, at));
    return Ok{};
  }

  // A node that the apply put at a path leaves it; it must be unchanged.
  Status add_leaving(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.new_node));
    Step out{.kind = StepKind::kTakeOut, .path = step.path};
    out.slot = WARREN_TRY(new_slot(step.path));
    if (there) out.old_node = HostNode::of(*there);
    if (there && step.tree != 0) {
      HostTree::TreeDigest now = WARREN_TRY(base_.digest_tree(step.path, put_paths_));
      if (step.content == 0 && now.value != step.tree) there.reset();
      out.tree = now.value;
    }
    if (!there) conflict(step.path, "it was changed since the apply");
    if (renamed_slots_.contains(step.slot)) moved_.emplace(step.slot, std::pair(out.slot, out.old_node));
    intent_.steps.push_back(std::move(out));
    return Ok{};
  }

  // A node that the apply moved or removed returns; nobody else may have taken its name.
  Status add_returning(const Step& step) {
    Step back{.kind = StepKind::kPutIn, .path = step.path};
    if (renamed_slots_.contains(step.slot)) {
      std::tie(back.slot, back.new_node) = moved_.at(step.slot);
    } else {
      back.slot = WARREN_TRY(new_slot(step.path));
      WARREN_TRY(stage(step.slot, step.old_node, back));
      if (step.tree != 0) {
        HostTree::TreeDigest staged = WARREN_TRY(base_.digest_tree(slot_path(intent_, back.slot)));
        back.tree = staged.value;
      }
      if (back.new_node.type == S_IFDIR) WARREN_TRY(list_returning(step.path, slot_path(intent_, back.slot)));
    }
    WARREN_TRY(check_name(step.path));
    WARREN_TRY(check_directory(step.path));
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  // Where an entry is now that the directories above it will bring to this path; "" in a directory that comes back from
  // what was kept.
  std::string path_now(const std::string& path) const {
    for (std::string_view at = split_parent(path).parent; at != "/"; at = split_parent(at).parent) {
      auto left = left_paths_.find(std::string(at));
      if (left == left_paths_.end()) continue;
      return left->second.empty() ? std::string() : left->second + path.substr(at.size());
    }
    return path;
  }

  // A node that returns needs its name. If its directory has exchanged names with another one, what the base has at the
  // path now belongs to that one, and goes with it.
  Status check_name(const std::string& path) {
    std::string now = path_now(path);
    if (now.empty() || put_paths_.contains(now)) return Ok{};
    if (WARREN_TRY(base_.find(now))) conflict(now, "something else is there now");
    return Ok{};
  }

  // A node that returns needs its directory, unless that returns with it.
  Status check_directory(const std::string& path) {
    std::string now = path_now(path);
    if (now.empty()) return Ok{};
    for (std::string_view at = split_parent(now).parent; at != "/"; at = split_parent(at).parent) {
      std::optional<struct stat> there = WARREN_TRY(base_.find(at));
      if (there && S_ISDIR(there->st_mode)) break;
      std::optional<struct stat> above = WARREN_TRY(base_.find(split_parent(at).parent));
      if (!above || !S_ISDIR(above->st_mode)) continue;
      conflict(std::string(at), there ? "it is no longer a directory, and something in it is to be restored"
                                      : "it no longer exists, and something in it is to be restored");
    }
    return Ok{};
  }

  // What is in a directory that returns: whoever updates the agent must be able to tell it from what somebody makes
  // there afterwards.
  Status list_returning(const std::string& path, const std::string& staged) {
    std::vector<TreeEntry> entries = WARREN_TRY(list_tree(base_, staged));
    for (const TreeEntry& entry : entries) {
      HostNode node = HostNode::of(entry.attributes);
      AppliedChange change;
      change.kind = TreeChangeKind::kAdded;
      change.path = path + entry.path.substr(staged.size());
      change.type = node.type;
      change.written = node;
      intent_.changes.push_back(std::move(change));
    }
    return Ok{};
  }

  Status add_replace(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.new_node));
    if (!there) conflict(step.path, "it was changed since the apply");
    Step back{.kind = StepKind::kReplace, .path = old_path(step.path)};
    back.slot = WARREN_TRY(new_slot(step.path));
    back.backup = WARREN_TRY(new_slot(step.path));
    if (there) back.old_node = HostNode::of(*there);
    WARREN_TRY(stage(step.backup, step.old_node, back));
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  Status add_metadata(const Step& step) {
    Step back{.kind = StepKind::kSetMetadata, .path = old_path(step.path)};
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.old_node));
    bool is_same = there && (there->st_mode & 07777U) == step.after.mode;
    if (!is_same) {
      conflict(step.path, "it was changed since the apply");
      return Ok{};
    }
    back.old_node = HostNode::of(*there);
    back.before = WARREN_TRY(base_.get_metadata(step.path));
    back.after = step.before;
    if (S_ISDIR(there->st_mode)) back.after.mtime = back.before.mtime;  // others may have changed its content
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  Status add_overwrite(const Step& step) {
    std::optional<struct stat> there = WARREN_TRY(find_unchanged(step, step.old_node));
    if (!there) {
      conflict(step.path, "it was changed since the apply");
      return Ok{};
    }
    WARREN_TRY(base_.check_overwritable(step.path));
    Step back{.kind = StepKind::kOverwrite, .path = old_path(step.path)};
    back.slot = WARREN_TRY(new_slot(step.path));
    back.backup = WARREN_TRY(new_slot(step.path));
    WARREN_TRY(stage(step.backup, step.old_node, back));
    back.old_node = HostNode::of(*there);
    back.before = WARREN_TRY(base_.get_metadata(step.path));
    back.after = step.before;
    Fd from = WARREN_TRY(base_.open_file(step.path, O_RDONLY));
    Fd to = WARREN_TRY(base_.create_file(slot_path(intent_, back.backup)));
    WARREN_TRY(copy_host_content(from.get(), to.get()).within(quote(step.path)));
    intent_.steps.push_back(std::move(back));
    return Ok{};
  }

  HostTree& base_;
  HostTree& kept_;
  const Intent& done_;
  Staging& staging_;
  Intent intent_;
  std::map<std::string, std::string> conflicts_;                       // path → why
  std::set<std::uint64_t> renamed_slots_;                              // slots of nodes that left one name for another
  std::unordered_map<std::string, std::string> old_paths_;             // of renamed nodes: new path → old path
  std::unordered_map<std::string, std::string> left_paths_;            // where nodes were → new path; "" if removed
  std::map<std::uint64_t, std::pair<std::uint64_t, HostNode>> moved_;  // their slots → slots of the undo
  std::unordered_set<std::string> put_paths_;                          // names that the apply gave to nodes
  std::unordered_map<std::string, const Step*> in_place_;              // nodes that it changed in place
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string>
      staged_;  // device and inode before → where it is staged
};

}  // namespace

std::string kept_slot_path(std::uint64_t slot) { return fmt::format("/{}", slot); }

Result<Inverse> build_inverse(HostTree& base, HostTree& kept, const Intent& done, Staging& staging) {
  InverseBuilder builder(base, kept, done, staging);
  WARREN_TRY(builder.build());
  std::vector<ApplyConflict> conflicts = builder.list_conflicts();
  return Inverse{.intent = builder.take_intent(), .conflicts = std::move(conflicts)};
}

}  // namespace warren
