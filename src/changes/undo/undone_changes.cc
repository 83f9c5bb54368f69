#include "changes/undo/undone_changes.h"

#include <map>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "agent/base_note.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "changes/upper/open_overlay.h"
#include "changes/upper/replace_origin.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_edit.h"
#include "changes/upper/upper_tree.h"
#include "fs/list_dir.h"
#include "fs/overlay/base_moves.h"
#include "store/overlay/apply_log.h"

namespace warren {
namespace {

// What the steps of an undo have done to the base.
class UndoneBase {
 public:
  explicit UndoneBase(const Intent& intent) {
    const std::vector<Step>& steps = intent.steps;
    std::unordered_map<std::uint64_t, std::string> taken;  // slot → the name that the apply had given to the node
    for (const Step& step : steps) {
      if (step.kind == StepKind::kTakeOut) taken.emplace(step.slot, step.path);
    }
    for (const Step& step : steps) {
      if (step.kind == StepKind::kTakeOut) removed_.insert(step.path);
      auto from = step.kind == StepKind::kPutIn ? taken.find(step.slot) : taken.end();
      if (from != taken.end()) renamed_back_.emplace(from->second, step.path);
      if (step.kind == StepKind::kPutIn || step.kind == StepKind::kReplace) written_[step.path] = step.new_node;
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
      if (change.has_unseen) merged_.insert(change.path);
    }
    // A file that was renamed and changed is another node under each name.
    for (const AppliedChange& change : intent.changes) {
      bool is_back = removed_.contains(change.base_path) && written_.contains(change.path);
      if (is_back) renamed_back_.try_emplace(change.base_path, change.path);
    }
    for (const auto& [from, to] : renamed_back_) back_from_.emplace(to, from);
  }

  // The renames of the apply: new path → the path that the node has again.
  const std::unordered_map<std::string, std::string>& renamed_back() const { return renamed_back_; }

  // The name that the apply gave to a node which has this one again; nullptr if it did not rename it.
  const std::string* find_renamed(const std::string& path) const {
    auto found = back_from_.find(path);
    return found == back_from_.end() ? nullptr : &found->second;
  }

  // Whether the apply had put it there. In a directory that has its old name again it was removed under the new one.
  bool has_removed(const std::string& path) const {
    for (std::string_view at = path; at.size() > 1; at = split_parent(at).parent) {
      if (removed_.contains(std::string(at))) return true;
      const std::string* renamed = find_renamed(std::string(at));
      if (renamed != nullptr) return has_removed_below(*renamed, path.substr(at.size()));
    }
    return false;
  }

  // Whether the agent's file was in conflict with the file that the apply had written, too: the apply had merged a part
  // of it into work that the agent has not seen. `seen` is what the agent's file is compared with.
  bool was_in_conflict(const std::string& path, const std::optional<Attributes>& seen) const {
    auto undone = undone_.find(path);
    if (!merged_.contains(path) || undone == undone_.end()) return false;
    const HostNode& node = undone->second;
    bool is_as_written =
        seen && seen->inode.value == (kBaseBit | node.inode) && seen->size == node.size && seen->mtime == node.mtime;
    return !is_as_written;
  }

  // Only as the undo has left it: a later edit is one that the agent has not seen.
  bool has_written(const std::string& path, const Attributes& now) const {
    auto found = written_.find(path);
    if (found == written_.end()) return false;
    const HostNode& node = found->second;
    if (now.is_directory()) return now.host_inode == node.inode;  // its entries are compared by name
    return now.host_inode == node.inode && now.size == node.size && now.mtime == node.mtime;
  }

 private:
  bool has_removed_below(const std::string& dir, const std::string& rest) const {
    std::string path = dir + rest;
    for (std::string_view at = path; at.size() > dir.size(); at = split_parent(at).parent) {
      if (removed_.contains(std::string(at))) return true;
    }
    return false;
  }

  std::unordered_set<std::string> removed_;
  std::unordered_set<std::string> merged_;            // with work that the agent has not seen
  std::unordered_map<std::string, HostNode> undone_;  // what the apply had written
  std::unordered_map<std::string, HostNode> written_;
  std::unordered_map<std::string, std::string> back_from_;  // renamed_back_, the other way round
  std::unordered_map<std::string, std::string> renamed_back_;
};

// What the agent had renamed, and still has under the new name because it is in use, is renamed again: a copy of the
// base's node, which is hidden at its old name.
class RenamedAgain {
 public:
  RenamedAgain(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base)
      : overlay_(overlay), tree_(tree), base_(base), edit_(overlay, tree, base) {}

  Status run(const UndoneBase& undone) {
    std::map<std::string, std::string> renamed;  // the path that it has again → the one of the apply; parents first
    for (const auto& [upper, row] : tree_.origins()) {
      auto back = undone.renamed_back().find(row.base_path);
      if (back != undone.renamed_back().end()) renamed.emplace(back->second, row.base_path);
    }
    for (const auto& [base_path, place] : renamed) {
      if (!WARREN_TRY(hide(base_path, undone))) continue;
      hidden_.insert(place);
      WARREN_TRY(cover(place, undone));
    }
    for (const auto& [upper, row] : tree_.origins()) {
      std::string_view at = row.base_path;
      while (at.size() > 1 && !undone.renamed_back().contains(std::string(at))) at = split_parent(at).parent;
      if (!hidden_.contains(std::string(at))) continue;
      Origin follows = row;
      follows.base_path = undone.renamed_back().at(std::string(at)) + row.base_path.substr(at.size());
      WARREN_TRY(follow(std::move(follows), undone));
    }
    return edit_.tidy(InUse::kYes);
  }

 private:
  // A file that was changed, too, is compared with what the undo put back.
  Status follow(Origin origin, const UndoneBase& undone) {
    std::optional<Attributes> there = WARREN_TRY(base_.find(origin.base_path));
    bool is_other = there && origin.seen && there->is_file() && origin.seen->is_file() &&
                    there->inode != origin.seen->inode && undone.has_written(origin.base_path, *there);
    if (!is_other) return overlay_.upper.put_origin(origin);
    origin.seen = there;
    origin.seen->ctime = {};  // the agent's node is another one
    return replace_origin(overlay_, origin, origin.base_path);
  }

  // What had the new name before the apply has it again, and the agent's node covers it.
  Status cover(const std::string& place, const UndoneBase& undone) {
    std::optional<Attributes> there = WARREN_TRY(base_.find(place));
    bool is_back = there && undone.has_written(place, *there);
    return is_back ? overlay_.upper.put_cover({.base_path = place, .seen = there, .at = {}}) : Status(Ok{});
  }

  // False if that is impossible, because the agent has something else there, or the file has other names.
  Result<bool> hide(const std::string& base_path, const UndoneBase& undone) {
    std::optional<Attributes> there = WARREN_TRY(base_.find(base_path));
    if (!there || (!there->is_directory() && there->nlink != 1)) return false;
    std::string path = shown_path_of(base_path, undone);
    if (tree_.find(path) != nullptr || tree_.is_gone(base_path)) return false;
    WARREN_TRY(edit_.add_whiteout(path, base_path, *there));
    return true;
  }

  // Where the merged tree will show that name: below a directory that is renamed again, it is under the new path.
  std::string shown_path_of(const std::string& base_path, const UndoneBase& undone) const {
    for (std::string_view at = split_parent(base_path).parent; at.size() > 1; at = split_parent(at).parent) {
      const std::string* place = undone.find_renamed(std::string(at));
      if (place != nullptr && hidden_.contains(*place)) return tree_.path_of(*place + base_path.substr(at.size()));
    }
    return tree_.path_of(base_path);
  }

  const AgentOverlay& overlay_;
  const UpperTree& tree_;
  TreeFinder& base_;
  UpperEdit edit_;
  std::unordered_set<std::string> hidden_;  // the new paths of those that are hidden at the old one
};

// The agent has another type of node there than what the undo put back: it has replaced that again.
Status cover_again(const AgentOverlay& overlay, const UpperNode& node) {
  Inode upper = node.node.inode;
  bool is_dir = node.node.is_directory();
  WARREN_TRY(is_dir ? overlay.upper.put_origin({.upper = upper, .base_path = "", .seen = {}})
                    : overlay.upper.remove_origin(upper));
  WARREN_TRY(overlay.upper.put_cover({.base_path = node.place, .seen = node.there, .at = {}}));
  std::vector<Cover> pending{{.base_path = node.place, .seen = node.there, .at = {}}};
  while (!pending.empty()) {
    Cover dir = std::move(pending.back());
    pending.pop_back();
    if (!dir.seen->is_directory()) continue;
    std::optional<Attributes> now = WARREN_TRY(find_in_tree(overlay.base, dir.base_path));
    if (!now || !now->is_directory()) continue;
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(overlay.base, now->inode, DirDetail::kAttributes));
    for (const DirEntry& entry : entries) {
      // Its times are too young to tell what came back from what somebody makes now.
      pending.push_back({.base_path = join_path(dir.base_path, entry.name), .seen = entry.attributes, .at = {}});
      WARREN_TRY(overlay.upper.put_cover(pending.back()));
    }
  }
  return Ok{};
}

// Of names that the undo has removed or written, and under which the agent has something else since the apply.
Status take_up_covers(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base, const UndoneBase& undone) {
  for (const auto& [place, cover] : tree.covers()) {
    if (!cover.seen || cover.seen->is_directory()) continue;
    std::optional<Attributes> now = WARREN_TRY(base.find(place));
    bool is_ours = now ? undone.has_written(place, *now) : undone.has_removed(place);
    if (is_ours) WARREN_TRY(overlay.upper.put_cover({.base_path = place, .seen = now, .at = {}}));
  }
  return Ok{};
}

Status take_up(const AgentOverlay& overlay, const UpperNode& node, const UndoneBase& undone) {
  bool is_copy = !node.origin->base_path.empty();
  bool is_back = node.there && undone.has_written(node.place, *node.there);
  bool was_linked = is_back && node.origin->hidden_names > 0 && node.there->nlink == 1;
  if (is_copy && node.is_untouched()) {  // it follows the base by itself
    if (!was_linked) return Ok{};
    Origin alone = *node.origin;
    alone.hidden_names = 0;
    return overlay.upper.put_origin(alone);
  }
  bool is_of_place = !is_copy || node.origin->base_path == node.place;
  std::vector<ByteRange> in_base = WARREN_TRY(overlay.upper.list_base_ranges(node.node.inode));
  if (!is_of_place || !in_base.empty()) return Ok{};  // a part of it is in the base: it must stay a copy
  if (!node.there) {
    bool is_own = node.is_kept_new() || node.node.is_directory();
    if (!is_own || !undone.has_removed(node.place)) return Ok{};
    if (!node.place.empty()) WARREN_TRY(overlay.upper.put_cover({.base_path = node.place, .seen = {}, .at = {}}));
    return overlay.upper.remove_origin(node.node.inode);
  }
  bool is_same_kind = ((node.there->mode ^ node.node.mode) & S_IFMT) == 0;
  if (is_back && !is_same_kind) return cover_again(overlay, node);
  bool is_opaque_dir = node.node.is_directory() && !is_copy && !node.origin->seen;
  if (is_back && is_opaque_dir) {  // cover_again made it so; now the base has the directory
    WARREN_TRY(overlay.upper.remove_cover(node.place));
    return overlay.upper.put_origin({.upper = node.node.inode, .base_path = "", .seen = node.there});
  }
  if (!is_back || node.node.is_directory()) return Ok{};
  if (undone.was_in_conflict(node.place, node.origin->seen)) return Ok{};
  Origin origin = *node.origin;
  if (was_linked) origin.hidden_names = 0;
  origin.seen = node.there;
  origin.seen->ctime = {};  // the agent's node is another one
  return replace_origin(overlay, origin, node.place);
}

Status record_in_trail(const ApplyRecord& undo, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = undo.agent, .layers = Layers::kOwn}, clock));
  AuditLog* log = WARREN_TRY(agent->operators_audit());
  if (log == nullptr) return Ok{};
  std::vector<std::string> paths;
  for (const Step& step : undo.intent->steps) paths.push_back(step.path);
  std::vector<AuditEvent> events = operators_events(*agent, "undo", paths);
  for (AuditEvent& event : events) event.to = undo.base + event.path;
  return log->append(std::move(events));
}

Status update_agent(const ApplyRecord& undo, Clock& clock) {
  OverlayAgent opened = WARREN_TRY(open_overlay(undo.agent, OpenMode::kReadWrite, clock));
  auto unit = WARREN_TRY(opened.overlay.upper.begin(UnitAccess::kWrite));
  if (opened.overlay.base_path == undo.base) WARREN_TRY(take_up_undone(opened.overlay, *undo.intent));
  WARREN_TRY(remove_apply_mark(opened.agent->store()));
  WARREN_TRY(unit->commit());
  unit.reset();
  return opened.agent->close();
}

bool has_its_agent(const ApplyRecord& undo) {
  Result<HostIdentity> file = identify_host_node(undo.agent);
  return file.ok() && file->inode == undo.inode;
}

Status change_mark(const ApplyRecord& undo, Clock& clock, Status (*change)(Store&)) {
  if (!has_its_agent(undo)) return Ok{};
  auto agent = WARREN_TRY(Agent::open({.id_or_path = undo.agent, .layers = Layers::kOwn}, clock));
  WARREN_TRY(change(agent->store()));
  return agent->close();
}

// What the agent has removed since the apply is a removal of what the undo put back.
Status take_up_removals(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base,
                        const UndoneBase& undone) {
  UpperEdit edit(overlay, tree, base);
  for (const UpperGap& gap : tree.gaps()) {
    bool is_undone = gap.there && gap.row->seen && !gap.there->is_directory() &&
                     !is_as_seen(*gap.there, *gap.row->seen) && undone.has_written(gap.place, *gap.there);
    if (is_undone) WARREN_TRY(edit.add_whiteout(gap.path, gap.place, *gap.there));
  }
  return edit.tidy(InUse::kYes);
}

}  // namespace

void mark_undo(const ApplyRecord& undo, Clock& clock) {
  change_mark(undo, clock, put_apply_mark).ignore("then a session in use may show what the base has");
}

void unmark_undo(const ApplyRecord& undo, Clock& clock) {
  change_mark(undo, clock, remove_apply_mark).ignore("the next apply removes it");
}

Status take_up_undone(const AgentOverlay& overlay, const Intent& intent) {
  UndoneBase undone(intent);
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  TreeFinder base(overlay.base);
  {
    UpperTree before = WARREN_TRY(UpperTree::read(overlay, base));
    WARREN_TRY(RenamedAgain(overlay, before, base).run(undone));
  }
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  WARREN_TRY(take_up_covers(overlay, tree, base, undone));
  for (const UpperNode& node : tree.nodes()) {
    if (node.origin != nullptr && !node.is_nameless) WARREN_TRY(take_up(overlay, node, undone));
  }
  WARREN_TRY(take_up_removals(overlay, tree, base, undone));
  return unit->commit();
}

std::vector<std::string> report_undo(const ApplyRecord& undo, Clock& clock) {
  if (!undo.intent || !has_its_agent(undo)) return {};
  std::vector<std::string> notes;
  Status recorded = record_in_trail(undo, clock);
  if (!recorded.ok()) {
    notes.push_back(fmt::format("the undo is not in the agent's audit trail: {}", recorded.error().message()));
  }
  Status updated = update_agent(undo, clock);
  if (!updated.ok()) {
    notes.push_back(
        fmt::format("changes of the running agent may now be reported as conflicts: {}", updated.error().message()));
  }
  return notes;
}

}  // namespace warren
