#include "changes/undo/undone_changes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "base/side_change.h"
#include "changes/compare.h"
#include "changes/undo/renamed_again.h"
#include "changes/undo/undone_base.h"
#include "changes/upper/open_overlay.h"
#include "changes/upper/replace_origin.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_edit.h"
#include "changes/upper/upper_tree.h"
#include "fs/list_dir.h"
#include "fs/overlay/base_moves.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "store/identity.h"
#include "store/overlay/apply_log.h"

namespace warren {
namespace {

// Without `known` the agent knows of nothing there: whatever the base has is in conflict.
Status put_known(const AgentOverlay& overlay, const std::string& place, const std::optional<UndoneBase::Known>& known) {
  return overlay.upper.put_cover({.base_path = place, .seen = known ? known->seen : std::nullopt, .at = {}});
}

// The agent has another type of node there than what the undo put back: it has replaced that again.
Status cover_again(const AgentOverlay& overlay, const UpperNode& node, const UndoneBase& undone) {
  Inode upper = node.node.inode;
  bool is_dir = node.node.is_directory();
  WARREN_TRY(is_dir ? overlay.upper.put_origin({.upper = upper, .base_path = "", .seen = {}})
                    : overlay.upper.remove_origin(upper));
  WARREN_TRY(put_known(overlay, node.place, undone.find_known(node.place, node.there, node.origin->seen)));
  std::vector<std::string> pending{node.place};
  while (!pending.empty()) {
    std::string dir = std::move(pending.back());
    pending.pop_back();
    std::optional<Attributes> now = WARREN_TRY(find_in_tree(overlay.base, dir));
    if (!now || !now->is_directory()) continue;
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(overlay.base, now->inode, DirDetail::kAttributes));
    for (const DirEntry& entry : entries) {
      std::string place = join_path(dir, entry.name);
      if (undone.find_renamed(place) != nullptr) continue;  // the agent has it elsewhere
      // Its times are too young to tell what came back from what somebody makes now. Of that, nothing was seen.
      std::optional<UndoneBase::Known> known = undone.find_known(place, entry.attributes, {});
      WARREN_TRY(put_known(overlay, place, known));
      if (known) pending.push_back(std::move(place));
    }
  }
  return Ok{};
}

// Of names that the undo has removed or written, and under which the agent has something else since the apply. What the
// apply had renamed is excepted: if the session no longer has it under its new name, it was never to be removed.
Status take_up_covers(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base, const UndoneBase& undone) {
  for (const auto& [place, cover] : tree.covers()) {
    if (!cover.seen && undone.find_renamed(place) != nullptr) continue;
    std::optional<Attributes> now = WARREN_TRY(base.find(place));
    std::optional<UndoneBase::Known> known = undone.find_known(place, now, cover.seen);
    if (!known) continue;
    // What somebody makes in a directory that is back was not seen.
    Timestamp at = now && now->is_directory() ? cover.at : Timestamp{};
    WARREN_TRY(overlay.upper.put_cover({.base_path = place, .seen = known->seen, .at = at}));
  }
  return Ok{};
}

// A part of a directory was applied which the agent has removed as a whole: what is back in it is removed again.
Status take_up_below(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base, const UndoneBase& undone) {
  for (const auto& [place, node] : undone.written()) {
    bool is_hidden = tree.is_gone(split_parent(place).parent) && !tree.covers().contains(place);
    if (!is_hidden || undone.was_renamed(place)) continue;
    std::optional<Attributes> now = WARREN_TRY(base.find(place));
    if (!now) continue;
    std::optional<UndoneBase::Known> known = undone.find_known(place, now, {});
    if (known) WARREN_TRY(put_known(overlay, place, known));
  }
  return Ok{};
}

// The base's directory is back under this one, which hides it since an earlier undo: it shows again, as an apply leaves
// it.
Status show_again(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base, const UpperNode& dir) {
  WARREN_TRY(overlay.upper.remove_cover(dir.place));
  UpperEdit edit(overlay, tree, base);
  WARREN_TRY(edit.uncover(dir.path, dir.place));
  return edit.tidy(InUse::kYes);
}

// What the agent has as its own since an earlier undo is in the base again: it stays for those who use it, as an apply
// leaves it.
class BackInBase {
 public:
  BackInBase(const AgentOverlay& overlay, const UpperTree& tree, const UndoneBase& undone)
      : overlay_(overlay), undone_(undone) {
    for (const auto& [upper, row] : tree.origins()) copied_.insert(row.base_path);
  }

  Status take_up(const UpperNode& node) {
    bool may_be = node.there && !node.node.is_directory() && node.node.nlink == 1 && !copied_.contains(node.place);
    if (!may_be || !undone_.has_written(node.place, *node.there)) return Ok{};
    bool is_same = WARREN_TRY(is_equal(node, *node.there));
    if (!is_same) return Ok{};
    WARREN_TRY(overlay_.upper.remove_cover(node.place));
    return overlay_.upper.put_origin({.upper = node.node.inode, .base_path = "", .seen = node.there});
  }

 private:
  Result<bool> is_equal(const UpperNode& node, const Attributes& there) {
    const Attributes& own = node.node;
    if (!has_same_mode(own, there) || own.size != there.size || own.mtime != there.mtime) return false;
    FileSystem& upper = overlay_.upper.fs();
    std::optional<Attributes> now = WARREN_TRY(find_in_tree(overlay_.base, node.place));
    if (!now || now->inode != there.inode) return false;
    if (own.is_file() && !WARREN_TRY(has_same_content(upper, own, overlay_.base, *now))) return false;
    if (own.is_symlink() && WARREN_TRY(upper.read_link(own.inode)) != WARREN_TRY(overlay_.base.read_link(now->inode)))
      return false;
    XattrMap theirs = WARREN_TRY(read_xattrs(overlay_.base, now->inode));
    XattrMap ours = WARREN_TRY(read_xattrs(upper, own.inode));
    return theirs == ours;
  }

  const AgentOverlay& overlay_;
  const UndoneBase& undone_;
  std::unordered_set<std::string> copied_;  // what the session shows under another name
};

// Whether the base has something under one of its names. The row of the node is about that.
bool has_name_in_base(const UpperTree& tree, Inode upper) {
  return std::ranges::any_of(tree.names_of(upper),
                             [&](std::size_t name) { return tree.nodes()[name].there.has_value(); });
}

// `known` is another version than the base has, so the agent's version is in conflict. A merge starts from the ancestor
// of that again, and not from what the apply wrote.
Status keep_in_conflict(const AgentOverlay& overlay, Origin origin, const UndoneBase::Known& known,
                        const AppliedChange::Own& own) {
  origin.seen = known.seen;
  origin.seen->ctime = {};  // the agent's node is another one
  WARREN_TRY(overlay.upper.remove_origin(origin.upper));
  WARREN_TRY(overlay.upper.put_origin(origin));
  return own.ancestor ? overlay.upper.keep_ancestor(origin.upper, as_bytes(*own.ancestor)) : Status(Ok{});
}

Status restore_metadata(FileSystem& fs, Inode node, const HostMetadata& as) {
  WARREN_TRY(
      fs.set_attributes(node, {.mode = as.mode, .uid = as.uid, .gid = as.gid, .size = {}, .atime = {}, .mtime = {}}));
  XattrMap now = WARREN_TRY(read_xattrs(fs, node));
  for (const auto& [name, value] : now) {
    if (!as.xattrs.contains(name)) WARREN_TRY(fs.remove_xattr(node, name));
  }
  for (const auto& [name, value] : as.xattrs) {
    WARREN_TRY(fs.set_xattr(node, name, as_bytes(value), XattrMode::kAny));
  }
  return Ok{};
}

// Like the base, the session has had a file with conflict markers since the apply: it gets the agent's version again.
Status give_own_back(const AgentOverlay& overlay, const Origin& origin, const UndoneBase::Known& known,
                     const AppliedChange::Own& own) {
  WARREN_TRY(keep_in_conflict(overlay, origin, known, own));
  FileSystem& fs = overlay.upper.fs();
  WARREN_TRY(fs.set_attributes(origin.upper, {.mode = {}, .uid = {}, .gid = {}, .size = 0, .atime = {}, .mtime = {}}));
  WARREN_TRY(fs.write(origin.upper, 0, as_bytes(own.content)));
  return own.metadata ? restore_metadata(fs, origin.upper, *own.metadata) : Status(Ok{});
}

// Whether the session has a copy of this file of the base, under whatever name. It is what each of the file's names
// shows there, so what it has is not to be replaced.
bool has_copy(const UpperTree& tree, const Attributes& there) {
  return std::ranges::any_of(tree.origins(),
                             [&](const auto& row) { return row.second.seen && row.second.seen->inode == there.inode; });
}

// The same if nobody used the session: it shows the base's file, and gets a copy of that with the agent's version.
Status bring_own_back(const AgentOverlay& overlay, TreeFinder& base, const UndoneBase& undone) {
  if (undone.own().empty()) return Ok{};
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  SideChange not_by_the_agent;
  std::unordered_map<std::string, UndoneBase::Known> brought;
  for (const auto& [place, own] : undone.own()) {
    std::optional<Attributes> there = WARREN_TRY(base.find(place));
    std::string path = tree.path_of(place);
    bool is_shown = there && there->is_file() && tree.find(path) == nullptr && !tree.is_gone(place);
    if (is_shown && has_copy(tree, *there)) continue;
    std::optional<UndoneBase::Known> known = is_shown ? undone.find_known(place, there, {}) : std::nullopt;
    if (!known) continue;
    WARREN_TRY(write_file(overlay.merged, path, as_bytes(own->content)));
    brought.emplace(place, *known);
  }
  std::vector<Origin> origins = WARREN_TRY(overlay.upper.list_origins());
  for (Origin& origin : origins) {
    auto known = brought.find(origin.base_path);
    if (known == brought.end()) continue;
    const AppliedChange::Own& own = *undone.find_own(origin.base_path);
    Inode upper = origin.upper;
    WARREN_TRY(keep_in_conflict(overlay, std::move(origin), known->second, own));
    if (own.metadata) WARREN_TRY(restore_metadata(overlay.upper.fs(), upper, *own.metadata));
  }
  return Ok{};
}

Status take_up(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base, const UpperNode& node,
               const UndoneBase& undone) {
  bool is_copy = !node.origin->base_path.empty();
  bool is_back = node.there && undone.has_written(node.place, *node.there);
  bool was_linked = is_back && node.origin->hidden_names > 0 && node.there->nlink == 1;
  std::optional<UndoneBase::Known> known = undone.find_known(node.place, node.there, node.origin->seen);
  bool was_lost = !node.there && known && known->seen;  // the user had deleted what it is a copy of
  bool is_of_place = !is_copy || node.origin->base_path == node.place;
  const AppliedChange::Own* own = undone.find_own(node.place);
  bool is_marked = own != nullptr && known && is_back && is_of_place && node.node.is_file() && node.is_untouched();
  if (is_marked) return give_own_back(overlay, *node.origin, *known, *own);
  if (is_copy && node.is_untouched() && !was_lost) {  // it follows the base by itself
    if (!was_linked) return Ok{};
    Origin alone = *node.origin;
    alone.hidden_names = 0;
    return overlay.upper.put_origin(alone);
  }
  std::vector<ByteRange> in_base = WARREN_TRY(overlay.upper.list_base_ranges(node.node.inode));
  if (!is_of_place || !in_base.empty()) return Ok{};  // a part of it is in the base: it must stay a copy
  if (!node.there) {
    bool is_own = node.is_kept_new() || node.node.is_directory() || was_lost;
    if (!is_own || !undone.has_removed(node.place)) return Ok{};
    if (!node.place.empty()) WARREN_TRY(put_known(overlay, node.place, known));
    return has_name_in_base(tree, node.node.inode) ? Status(Ok{}) : overlay.upper.remove_origin(node.node.inode);
  }
  bool is_same_kind = ((node.there->mode ^ node.node.mode) & S_IFMT) == 0;
  if (is_back && !is_same_kind) return cover_again(overlay, node, undone);
  bool is_opaque_dir = node.node.is_directory() && !is_copy && !node.origin->seen;
  bool is_shown_elsewhere = is_opaque_dir && tree.is_moved_dir(node.place);
  if (is_back && is_opaque_dir && !is_shown_elsewhere) return show_again(overlay, tree, base, node);
  if (!is_back || node.node.is_directory() || !known) return Ok{};
  Origin origin = *node.origin;
  if (was_linked) origin.hidden_names = 0;
  origin.seen = known->seen;
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

Status change_mark(const ApplyRecord& undo, Clock& clock, Status (*change)(Store&)) {
  if (!WARREN_TRY(has_its_agent(undo, clock))) return Ok{};
  auto agent = WARREN_TRY(Agent::open({.id_or_path = undo.agent, .layers = Layers::kOwn}, clock));
  WARREN_TRY(change(agent->store()));
  return agent->close();
}

// What the agent has removed since the apply is a removal of what the undo put back.
Status take_up_removals(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base,
                        const UndoneBase& undone) {
  UpperEdit edit(overlay, tree, base);
  for (const UpperGap& gap : tree.gaps()) {
    bool is_other = gap.there && gap.row->seen && !gap.there->is_directory() && !is_as_seen(*gap.there, *gap.row->seen);
    auto known = is_other ? undone.find_known(gap.place, gap.there, gap.row->seen) : std::nullopt;
    if (known) WARREN_TRY(edit.add_whiteout(gap.path, gap.place, *known->seen));
  }
  return edit.tidy(InUse::kYes);
}

}  // namespace

Result<bool> has_its_agent(const ApplyRecord& undo, Clock& clock) {
  std::optional<struct stat> file = WARREN_TRY(find_host_file(undo.agent));
  if (!file) return false;
  if (undo.agent_identity.empty()) return file->st_ino == undo.inode;
  auto agent =
      WARREN_TRY(Agent::open({.id_or_path = undo.agent, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn}, clock));
  std::optional<std::string> identity = WARREN_TRY(find_identity(agent->store()));
  return identity == undo.agent_identity;
}

Status mark_undo(const ApplyRecord& undo, Clock& clock) { return change_mark(undo, clock, put_apply_mark); }

void unmark_undo(const ApplyRecord& undo, Clock& clock) {
  change_mark(undo, clock, remove_apply_mark).ignore("the next apply removes it");
}

Status take_up_undone(const AgentOverlay& overlay, const Intent& intent) {
  UndoneBase undone(intent);
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  TreeFinder base(overlay.base);
  {
    UpperTree before = WARREN_TRY(UpperTree::read(overlay, base));
    WARREN_TRY(RenamedAgain(overlay, before, base, undone).run());
  }
  WARREN_TRY(bring_own_back(overlay, base, undone));
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  WARREN_TRY(take_up_covers(overlay, tree, base, undone));
  WARREN_TRY(take_up_below(overlay, tree, base, undone));
  BackInBase back(overlay, tree, undone);
  for (const UpperNode& node : tree.nodes()) {
    if (node.is_nameless) continue;
    WARREN_TRY(node.origin == nullptr ? back.take_up(node) : take_up(overlay, tree, base, node, undone));
  }
  WARREN_TRY(take_up_removals(overlay, tree, base, undone));
  return unit->commit();
}

Result<std::vector<std::string>> report_undo(const ApplyRecord& undo, Clock& clock) {
  std::vector<std::string> notes;
  bool has_agent = undo.intent && WARREN_TRY(has_its_agent(undo, clock));
  if (!has_agent) return notes;
  Status recorded = record_in_trail(undo, clock);
  if (!recorded.ok()) {
    notes.push_back(fmt::format("the undo is not in the agent's audit trail: {}", recorded.error().message()));
  }
  WARREN_TRY(update_agent(undo, clock));
  return notes;
}

}  // namespace warren
