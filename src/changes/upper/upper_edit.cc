#include "changes/upper/upper_edit.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "agent/agent_state.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/apply/apply.h"
#include "changes/compare.h"
#include "changes/pinned/frozen_tree.h"
#include "changes/pinned/merged_work.h"
#include "fs/list_dir.h"

namespace warren {

InUse find_use(Agent& agent) { return is_used_elsewhere(agent) ? InUse::kYes : InUse::kNo; }

namespace {

// One row lookup for each file of the base that the agent has changed; the tree is read only if it is worth it.
Result<bool> may_have_untouched(UpperLayer& upper) {
  std::vector<Origin> rows = WARREN_TRY(upper.list_origins());
  return std::any_of(rows.begin(), rows.end(), [&](const Origin& row) {
    if (!row.seen || row.seen->is_directory()) return false;
    Result<Attributes> node = upper.fs().get_attributes(row.upper);
    return node.ok() && is_as_recorded(*node, row);
  });
}

// One lookup in the base for each row.
Result<bool> may_have_moves(const AgentOverlay& overlay, TreeFinder& base) {
  std::vector<Origin> rows = WARREN_TRY(overlay.upper.list_origins());
  std::sort(rows.begin(), rows.end(), [](const Origin& a, const Origin& b) { return a.base_path < b.base_path; });
  for (const Origin& row : rows) {
    if (row.base_path.empty() || !row.seen) continue;
    std::optional<Attributes> there = WARREN_TRY(base.find(row.base_path));
    if (!there || there->inode != row.seen->inode) return true;
  }
  return false;
}

}  // namespace

Result<Dropped> drop_untouched(Agent& agent) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay || agent.store().is_read_only()) return Dropped::kNothing;
  auto unit = WARREN_TRY(overlay->upper.begin(UnitAccess::kWrite));
  if (find_use(agent) == InUse::kYes) return Dropped::kNothing;  // whoever opens it from here on finds it done
  TreeFinder base(overlay->base);
  bool may_have = WARREN_TRY(may_have_untouched(overlay->upper));
  bool may_have_moved = WARREN_TRY(may_have_moves(*overlay, base));
  if (!may_have && !may_have_moved) return Dropped::kNothing;
  UpperTree tree = WARREN_TRY(UpperTree::read(*overlay, base));
  if (!may_have && tree.moves().empty()) return Dropped::kNothing;
  UpperEdit edit(*overlay, tree, base);
  WARREN_TRY(edit.settle_moves(InUse::kNo));
  WARREN_TRY(edit.remove_untouched());
  WARREN_TRY(edit.tidy(InUse::kNo));
  WARREN_TRY(unit->commit());
  return Dropped::kSomething;
}

Result<ToServe> open_to_serve(const AgentOptions& options, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open(options, clock));
  Result<bool> unmarked = remove_dead_mark(*agent);  // it fails while an apply is under way
  if (unmarked.ok() && *unmarked) {
    WARREN_TRY(agent->close());
    agent = WARREN_TRY(Agent::open(options, clock));
  }
  Result<bool> settled = settle_merged(*agent);  // if it fails, more is a change than has to be
  if (settled.ok() && *settled) {
    WARREN_TRY(agent->close());
    agent = WARREN_TRY(Agent::open(options, clock));
  }
  Result<Dropped> dropped = drop_untouched(*agent);  // what is left hides the base, but loses nothing
  Result<Frozen> frozen = freeze_work_tree(*agent);  // if it fails, files show as the base has them
  bool is_other = (dropped.ok() && *dropped == Dropped::kSomething) || (frozen.ok() && *frozen == Frozen::kChanged);
  ToServe opened{.agent = {}, .warning = describe_unfrozen(frozen)};
  if (is_other) {
    WARREN_TRY(agent->close());
    agent = WARREN_TRY(Agent::open(options, clock));
  }
  opened.agent = std::move(agent);
  return opened;
}

// Whether the base has all content of a file that follows a rename there, and its metadata is the same.
Result<bool> UpperEdit::is_only_renamed(const UpperNode& node) {
  bool is_followed = node.node.is_file() && tree_.followed().contains(node.node.inode);
  if (!is_followed || !node.there || node.origin->base_path != node.place || node.node.nlink != 1) return false;
  if (node.there->size != node.node.size || !has_same_mode(*node.there, node.node)) return false;
  std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(node.node.inode));
  if (in_base.size() != 1 || in_base[0] != ByteRange{0, node.node.size}) return false;
  std::optional<Attributes> there = WARREN_TRY(base_.find(node.place));  // inode numbers of the base do not stay valid
  if (!there) return false;
  XattrMap theirs = WARREN_TRY(read_xattrs(overlay_.base, there->inode));
  XattrMap ours = WARREN_TRY(read_xattrs(overlay_.upper.fs(), node.node.inode));
  return theirs == ours;
}

Status UpperEdit::settle_moves(InUse in_use) {
  for (Inode upper : tree_.followed()) WARREN_TRY(overlay_.upper.put_origin(*tree_.find_origin(upper)));
  for (const std::string& path : tree_.ended_whiteouts()) WARREN_TRY(remove_whiteout(path));
  if (in_use == InUse::kYes || tree_.followed().empty()) return Ok{};
  for (const UpperNode& node : tree_.nodes()) {
    bool is_only_name = WARREN_TRY(is_only_renamed(node));
    if (is_only_name) WARREN_TRY(remove(node.path));
  }
  return Ok{};
}

Status UpperEdit::remove_untouched(const std::vector<std::string>& except) {
  std::unordered_set<std::string_view> kept(except.begin(), except.end());
  for (const UpperNode& node : tree_.nodes()) {
    if (node.is_untouched() && has(node.path) && !kept.contains(node.path)) WARREN_TRY(remove(node.path));
  }
  for (const UpperGap& gap : tree_.gaps()) {
    if (tree_.is_only_hidden(gap)) WARREN_TRY(remove_whiteout(gap.path));
  }
  return Ok{};
}

std::optional<Inode> UpperEdit::find(std::string_view path) const {
  std::string key(path);
  if (removed_.contains(key)) return std::nullopt;
  if (auto made = made_.find(key); made != made_.end()) return made->second;
  const UpperNode* node = tree_.find(path);
  return node == nullptr ? std::nullopt : std::optional(node->node.inode);
}

Status UpperEdit::touch_parent(std::string_view path) {
  std::string parent(split_parent(path).parent);
  if (touched_.contains(parent)) return Ok{};
  std::optional<Inode> dir = find(parent);
  if (!dir) return Ok{};
  Attributes before = WARREN_TRY(overlay_.upper.fs().get_attributes(*dir));
  touched_.emplace(std::move(parent), before);
  return Ok{};
}

Status UpperEdit::restore_dir(std::string_view path, const Attributes& as) {
  std::optional<Inode> dir = find(path);
  if (!dir) return Ok{};
  touched_.insert_or_assign(std::string(path), as);
  return overlay_.upper.restore(*dir, as);
}

Result<bool> UpperEdit::is_bare(std::string_view path, Inode dir) {
  auto stream = WARREN_TRY(overlay_.upper.fs().open_dir(dir));
  std::vector<DirEntry> first = WARREN_TRY(stream->read(0, 1, DirDetail::kNames));
  if (!first.empty()) return false;
  std::vector<std::string> gone = WARREN_TRY(overlay_.upper.list_whiteouts_in(path));
  return gone.empty();
}

Result<bool> UpperEdit::remove(std::string_view path) {
  const UpperNode* node = tree_.find(path);
  std::optional<Inode> inode = find(path);
  if (!inode || path == "/") return false;
  if (node != nullptr && node->is_nameless) {
    WARREN_TRY(overlay_.upper.remove_origin(*inode));
    WARREN_TRY(overlay_.upper.let_go(*inode));
    removed_.emplace(path);
    return true;
  }
  std::optional<Inode> parent = find(split_parent(path).parent);
  if (!parent) return Error(Code::kInternal, "missing directory of the name " + quote(path));
  FileSystem& fs = overlay_.upper.fs();
  std::string_view name = split_parent(path).name;
  bool is_dir = node == nullptr || node->node.is_directory();
  if (is_dir) {
    bool is_bare_now = WARREN_TRY(is_bare(path, *inode));
    if (!is_bare_now || kept_.contains(std::string(path))) return false;
  }
  Attributes now = WARREN_TRY(fs.get_attributes(*inode));
  WARREN_TRY(touch_parent(path));
  bool is_last_name = is_dir || now.nlink <= 1;
  if (is_last_name) WARREN_TRY(overlay_.upper.remove_origin(*inode));
  WARREN_TRY(is_dir ? fs.remove_dir(*parent, name) : fs.unlink(*parent, name));
  if (node != nullptr && !node->place.empty()) WARREN_TRY(overlay_.upper.remove_cover(node->place));
  removed_.emplace(path);
  made_.erase(std::string(path));
  return true;
}

Status UpperEdit::remove_whiteout(std::string_view path) {
  WARREN_TRY(touch_parent(path));
  if (const UpperGap* gap = tree_.find_gap(path)) WARREN_TRY(overlay_.upper.remove_cover(gap->place));
  return overlay_.upper.remove_whiteout(path);
}

Status UpperEdit::remove_whiteouts_below(std::string_view path) { return overlay_.upper.remove_whiteouts_below(path); }

Status UpperEdit::add_whiteout(std::string_view path, std::string_view base_path, const Attributes& seen) {
  std::string_view above = split_parent(path).parent;
  std::optional<Inode> dir = find(above);
  while (!dir && above != "/") {  // a directory above is removed, too
    above = split_parent(above).parent;
    dir = find(above);
  }
  if (!dir) return Error(Code::kInternal, "missing directory of the whiteout " + quote(path));
  WARREN_TRY(touch_parent(path));
  WARREN_TRY(overlay_.upper.put_cover({.base_path = std::string(base_path), .seen = seen, .at = {}}));
  return overlay_.upper.add_whiteout(*dir, path, seen, base_path);
}

Cover UpperEdit::cover_of(const std::string& place, const Attributes& now) const {
  const Cover* known = tree_.find_cover(place);
  if (known == nullptr) return {.base_path = place, .seen = now, .at = {}};
  if (known->base_path == place) return *known;
  if (!known->seen) return {.base_path = place, .seen = {}, .at = known->at};
  Attributes seen = now;
  bool is_other = now.is_directory() ? is_moved_since(now, known->at) : !is_surely_older(now.ctime, known->at);
  if (is_other) {  // all that is known of the version that the agent removed is that it was not this one
    --seen.mtime.seconds;
    if (now.is_directory()) seen.inode = {};
  }
  return {.base_path = place, .seen = seen, .at = known->at};
}

// kConflict if the base's file has become shorter.
Status UpperEdit::copy_range(Inode from, ByteRange range, Inode to) {
  std::string part;
  for (std::uint64_t at = range.begin; at < range.end; at += part.size()) {
    part.resize(std::min<std::uint64_t>(limits::kCopyBytes, range.end - at));
    part.resize(WARREN_TRY(overlay_.base.read(from, at, as_mutable_bytes(part))));
    if (part.empty()) return Error(Code::kConflict, "the file has just become shorter in the base");
    WARREN_TRY(overlay_.upper.fs().write(to, at, as_bytes(part)));
  }
  return Ok{};
}

Status UpperEdit::take_rest(const UpperNode& node) {
  Inode file = node.node.inode;
  std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(file));
  if (in_base.empty()) return Ok{};
  const std::string& place = node.origin->base_path;
  std::optional<Attributes> from = WARREN_TRY(base_.find(place));
  bool is_same = from && node.origin->seen && is_as_seen(*from, *node.origin->seen);
  if (!is_same) {
    std::string path = quote(node.path);
    return Error(Code::kConflict,
                 fmt::format("{} has parts of {}, which has been changed in the base", path, quote(place)),
                 fmt::format("discard {}, too", path));
  }
  for (const ByteRange& range : in_base) WARREN_TRY(copy_range(from->inode, range, file));
  WARREN_TRY(overlay_.upper.set_base_ranges(file, {}));
  return overlay_.upper.restore(file, node.node);
}

Status UpperEdit::detach(const UpperNode& node) {
  Inode file = node.node.inode;
  WARREN_TRY(take_rest(node));
  WARREN_TRY(overlay_.upper.remove_origin(file));
  // It has another number from here on.
  for (std::size_t index : tree_.names_of(file)) {
    const UpperNode& name = tree_.nodes()[index];
    if (has(name.path)) overlay_.upper.note_name(name.parent, base_name(name.path));
  }
  return Ok{};
}

Status UpperEdit::take_content(const UpperNode& node, std::string_view base_path) {
  auto changed = [&] { return Error(Code::kConflict, quote(base_path) + " has just been changed in the base"); };
  std::optional<Attributes> from = WARREN_TRY(base_.find(base_path));
  if (!from || !from->is_file()) return changed();
  FileSystem& fs = overlay_.upper.fs();
  Inode file = node.node.inode;
  auto resize = [&](std::uint64_t size) {
    return fs.set_attributes(file, {.mode = {}, .uid = {}, .gid = {}, .size = size, .atime = {}, .mtime = {}});
  };
  WARREN_TRY(resize(0));
  bool is_copy = node.origin != nullptr && !node.origin->base_path.empty();
  bool is_large = is_copy && from->size > limits::kCopyWholeBytes;  // as when it is first changed: nothing is copied
  std::vector<ByteRange> in_base;
  if (is_large) in_base.push_back({0, from->size});
  if (is_copy) WARREN_TRY(overlay_.upper.set_base_ranges(file, in_base));
  if (is_large) {
    WARREN_TRY(resize(from->size));
    return Ok{};
  }
  return copy_range(from->inode, {0, from->size}, file).within(quote(base_path));
}

Status UpperEdit::show_base(std::string_view path, std::string_view base_path) {
  std::optional<Inode> dir = find(path);
  if (!dir) return Ok{};
  shown_.emplace(path);
  std::optional<Attributes> seen = WARREN_TRY(base_.find(base_path));
  if (!seen) return overlay_.upper.remove_origin(*dir);
  return overlay_.upper.put_origin({.upper = *dir, .base_path = std::string(base_path), .seen = seen});
}

Status UpperEdit::uncover(std::string_view path, std::string_view base_path) {
  std::optional<Attributes> dir = WARREN_TRY(base_.find(base_path));
  if (!dir || !dir->is_directory()) return Ok{};
  std::vector<DirEntry> entries = WARREN_TRY(list_dir(overlay_.base, dir->inode, DirDetail::kAttributes));
  // In a directory that hides everything, whiteouts had no effect until now.
  std::vector<std::string> old = WARREN_TRY(overlay_.upper.list_whiteouts_in(path));
  for (const std::string& name : old) WARREN_TRY(overlay_.upper.remove_whiteout(join_path(path, name)));
  for (const DirEntry& entry : entries) {
    std::string child = join_path(path, entry.name);
    const UpperNode* node = tree_.find(child);
    if (node == nullptr || removed_.contains(child)) {
      std::string place = join_path(base_path, entry.name);
      Cover cover = cover_of(place, *entry.attributes);
      WARREN_TRY(add_whiteout(child, place, cover.seen.value_or(*entry.attributes)));
      WARREN_TRY(overlay_.upper.put_cover(cover));
    } else if (node->replaces_dir && node->origin == nullptr) {
      // It hid the base's directory only because it is inside this one.
      WARREN_TRY(overlay_.upper.put_origin({.upper = node->node.inode, .base_path = ""}));
    }
  }
  return show_base(path, base_path);
}

Result<Inode> UpperEdit::make_dir(std::string_view path, std::string_view base_path) {
  if (std::optional<Inode> there = find(path)) return *there;
  std::optional<Attributes> as = WARREN_TRY(base_.find(base_path));
  std::optional<Inode> parent = find(split_parent(path).parent);
  if (!as || !parent) return Error(Code::kConflict, quote(path) + " no longer exists in the base");
  WARREN_TRY(touch_parent(path));
  XattrMap xattrs = WARREN_TRY(read_xattrs(overlay_.base, as->inode));
  Inode made = WARREN_TRY(overlay_.upper.adopt(*parent, split_parent(path).name, *as, ""));
  for (const auto& [name, value] : xattrs) {
    WARREN_TRY(overlay_.upper.fs().set_xattr(made, name, as_bytes(value), XattrMode::kAny));
  }
  WARREN_TRY(overlay_.upper.put_origin({.upper = made, .base_path = std::string(base_path), .seen = *as}));
  WARREN_TRY(overlay_.upper.restore(made, *as));
  made_.emplace(path, made);
  return made;
}

Result<Inode> UpperEdit::adopt(std::string_view path, std::string_view base_path, const Attributes& as,
                               std::string_view target) {
  std::optional<Inode> parent = find(split_parent(path).parent);
  if (!parent) return Error(Code::kInternal, "missing directory of the name " + quote(path));
  WARREN_TRY(touch_parent(path));
  Inode made = WARREN_TRY(overlay_.upper.adopt(*parent, split_parent(path).name, as, target));
  WARREN_TRY(overlay_.upper.put_origin({.upper = made, .base_path = std::string(base_path), .seen = as}));
  if (as.is_directory()) made_.emplace(path, made);
  return made;
}

// Removes the directory if it is no longer needed; returns whether it did.
Result<bool> UpperEdit::prune(std::string_view path) {
  std::optional<Inode> dir = find(path);
  if (!dir || path == "/") return false;
  const UpperNode* node = tree_.find(path);
  bool shows_base = node == nullptr || node->base_path == node->place || shown_.contains(std::string(path));
  if (!shows_base) return false;
  // In a directory that shows nothing of the base by itself, the base's shows only because of this one.
  const UpperNode* above = tree_.find(split_parent(path).parent);
  bool is_shown_alone = above != nullptr && !above->base_path && !shown_.contains(above->path);
  if (is_shown_alone) return false;
  bool is_changed = WARREN_TRY(has_own_metadata(node));
  if (is_changed) return false;
  return remove(path);
}

// Whether the directory's own metadata differs from the base's: a change that must stay.
Result<bool> UpperEdit::has_own_metadata(const UpperNode* node) {
  if (node == nullptr) return false;
  Attributes now = WARREN_TRY(overlay_.upper.fs().get_attributes(node->node.inode));
  if (node->origin != nullptr && node->origin->seen && has_same_mode(now, *node->origin->seen)) return false;
  std::optional<Attributes> there = WARREN_TRY(base_.find(node->place.empty() ? node->path : node->place));
  return !there || !has_same_mode(now, *there);
}

Status UpperEdit::tidy(InUse in_use) {
  std::vector<std::string> paths;
  for (const UpperNode& node : tree_.nodes()) {
    if (node.node.is_directory() && in_use == InUse::kNo) paths.push_back(node.path);
  }
  for (const auto& [path, made] : made_) paths.push_back(path);
  std::sort(paths.begin(), paths.end(), std::greater<>());  // children before parents
  for (const std::string& path : paths) WARREN_TRY(prune(path));
  for (const auto& [path, was] : touched_) {
    std::optional<Inode> dir = find(path);
    if (dir) WARREN_TRY(overlay_.upper.restore(*dir, was));
  }
  return Ok{};
}

}  // namespace warren
