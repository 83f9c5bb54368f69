// The part of OverlayFs that renames. What moves is first copied to the upper layer, a directory without its children:
// its origin records where they are in the base.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/overlay/overlay_change.h"

namespace warren {
namespace {

// Where whiteouts are parked while two directories are exchanged: not a path that a node can have.
constexpr std::string_view kBetween = "//between";

Error into_itself() { return {Code::kInvalid, "a directory cannot move into itself"}; }

}  // namespace

Result<OverlayFs::Side> OverlayFs::look_at(Inode parent, std::string_view name) {
  Side side{.parent = parent, .name = name, .entry = {}, .own = {}, .in_base = {}};
  side.entry = WARREN_TRY(find_in(parent, name));
  side.own = WARREN_TRY(find_in_upper(parent, name));
  side.in_base = WARREN_TRY(find_to_hide(parent, name, side.own));
  return side;
}

Status OverlayFs::check_replaceable(const Attributes& old_entry, const Attributes& new_entry) {
  bool old_is_dir = old_entry.is_directory();
  bool new_is_dir = new_entry.is_directory();
  if (old_is_dir && !new_is_dir) return Error(Code::kNotDirectory, "the new name is not a directory");
  if (!old_is_dir && new_is_dir) return Error(Code::kIsDirectory, "the new name is a directory");
  if (new_is_dir && !WARREN_TRY(is_empty(new_entry.inode))) {
    return Error(Code::kNotEmpty, "the directory at the new name is not empty");
  }
  return Ok{};
}

// The device of the directory that shows through, or of the nearest one above that does; 0 if unknown.
std::uint64_t OverlayFs::find_device(Inode number) {
  for (int depth = 0; depth < limits::kTreeDepth; ++depth) {
    auto dir = dirs_.find(number);
    if (dir == dirs_.end()) break;
    if (dir->second.base) {
      Result<Attributes> shown = base_.get_attributes(*dir->second.base);
      if (shown.ok()) return shown->host_device;
    }
    if (number == kRootInode) break;
    number = dir->second.parent;
  }
  return 0;
}

// As on the host, a directory cannot be renamed to another filesystem: callers then copy it. Such a rename could not be
// applied.
Status OverlayFs::check_same_device(const Side& moved, const Side& to) {
  if (!moved.entry->is_directory() || moved.parent == to.parent) return Ok{};
  if (!dirs_.at(moved.entry->inode).base) return Ok{};
  std::uint64_t own = find_device(moved.entry->inode);
  std::uint64_t there = find_device(to.parent);
  if (own == there || own == 0 || there == 0) return Ok{};
  return Error(Code::kCrossDevice, "the base has the directory on another filesystem");
}

Status OverlayFs::check_rename(const Side& from, const Side& to, RenameMode mode) {
  if (mode == RenameMode::kExchange && !to.entry) {
    return Error(Code::kNotFound, fmt::format("no {}", quote(to.name)));
  }
  if (mode == RenameMode::kNoReplace && to.entry) {
    return Error(Code::kExists, fmt::format("{} exists already", quote(to.name)));
  }
  if (to.entry && to.entry->inode == from.entry->inode) return Ok{};
  if (from.entry->is_directory() && is_within(to.parent, from.entry->inode)) return into_itself();
  WARREN_TRY(check_same_device(from, to));
  if (mode == RenameMode::kExchange) {
    bool goes_in = to.entry->is_directory() && is_within(from.parent, to.entry->inode);
    return goes_in ? Status(into_itself()) : check_same_device(to, from);
  }
  if (to.entry) WARREN_TRY(check_replaceable(*from.entry, *to.entry));
  return Ok{};
}

Status OverlayFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                         RenameMode mode) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_name(new_name));
  return change([&]() -> Status {
    WARREN_TRY(enter_to_change(parent));
    WARREN_TRY(enter_to_change(new_parent));
    Side from = WARREN_TRY(look_at(parent, name));
    if (!from.entry) return Error(Code::kNotFound, fmt::format("no {}", quote(name)));
    Side to = WARREN_TRY(look_at(new_parent, new_name));
    WARREN_TRY(check_rename(from, to, mode));
    if (to.entry && to.entry->inode == from.entry->inode) return Ok{};
    if (mode != RenameMode::kExchange) from.in_base = WARREN_TRY(find_to_keep_hidden(parent, name, from.own));
    bool moves_dir = from.entry->is_directory() || (to.entry && to.entry->is_directory());
    if (moves_dir) WARREN_TRY(settle_moves(followed_));  // at a third place, the rows of before would show nothing
    WARREN_TRY(bring_up(from));
    return mode == RenameMode::kExchange ? exchange(from, to) : replace(from, to);
  });
}

// Ensures that the upper layer has the entry, under this very name.
Status OverlayFs::bring_up(const Side& side) {
  Inode number = side.entry->inode;
  Copy* copy = find_copy(number);
  if (side.own) {
    if (!copy || copy->is_noted) return Ok{};
    // So far it merged with the base's directory of the same path; from now on that must be recorded.
    copy->seen = WARREN_TRY(base_.get_attributes(dirs_.at(number).base.value_or(number)));
    base_.reserve_number(copy->seen->inode, copy->seen->generation);
    WARREN_TRY(upper_.put_origin({copy->upper, copy->base_path, copy->seen, 0}));
    copy->is_noted = true;
    return Ok{};
  }
  if (side.entry->is_directory()) {
    WARREN_TRY(copy_dir(number));
    return Ok{};
  }
  if (copy) return bring_up_link(side, *copy);
  std::vector<Place>& places = places_[number];
  Place place{side.parent, std::string(side.name)};
  std::erase(places, place);
  places.push_back(std::move(place));
  WARREN_TRY(copy_up({number, std::nullopt, number}, std::numeric_limits<std::uint64_t>::max()));
  return Ok{};
}

// The node exists under another name: a hard link of the base becomes one of the upper layer.
Status OverlayFs::bring_up_link(const Side& side, Copy& copy) {
  Inode parent = WARREN_TRY(upper_dir(side.parent));
  Attributes parent_before = WARREN_TRY(upper().get_attributes(parent));
  Attributes before = WARREN_TRY(upper().get_attributes(copy.upper));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(upper().link(copy.upper, parent, side.name));
  if (before.nlink == 0) WARREN_TRY(upper_.let_go(copy.upper));  // it has a name again
  WARREN_TRY(upper_.restore(parent, parent_before));
  WARREN_TRY(upper_.restore(copy.upper, before));
  std::uint32_t hidden = copy.hidden_names - std::min(copy.hidden_names, 1U);
  WARREN_TRY(upper_.put_origin({copy.upper, copy.base_path, copy.seen, hidden}));
  WARREN_TRY(unit->commit());
  copy.hidden_names = hidden;
  return Ok{};
}

// A directory that shows nothing of the base moves to a path that the base has: the base's must not show.
Status OverlayFs::hide_base_below(const Side& moved, const Side& to) {
  Inode number = moved.entry->inode;
  if (!moved.entry->is_directory() || is_base_number(number) || find_copy(number)) return Ok{};
  bool covers = (to.in_base && to.in_base->is_directory()) || is_removed_meanwhile(to.parent, to.name);
  if (!covers || opaque_.contains(number)) return Ok{};
  WARREN_TRY(upper_.put_origin({.upper = number, .base_path = "", .seen = {}, .hidden_names = 0}));
  opaque_.insert(number);
  return Ok{};
}

// When another node takes a name, the base's node of that name has one name less from now on.
Status OverlayFs::lose_covered_link(const Side& to, Timestamp at) {
  if (!to.in_base || to.in_base->is_directory() || to.in_base->nlink <= 1) return Ok{};
  std::string base_path = base_path_of(to.parent, to.name);
  WARREN_TRY(upper_.put_lost_link(
      {.base_path = base_path, .base = to.in_base->inode, .generation = to.in_base->generation, .at = at}));
  base_.reserve_number(to.in_base->inode, to.in_base->generation);
  lose_name(to.in_base->inode, base_path, at);
  return Ok{};
}

Status OverlayFs::replace(const Side& from, const Side& to) {
  Inode upper_from = WARREN_TRY(upper_dir(from.parent));
  Inode upper_to = WARREN_TRY(upper_dir(to.parent));
  // No whiteout will record that the base's node has one name less, so its copy must.
  if (to.entry && !to.entry->is_directory() && to.entry->nlink > 1) WARREN_TRY(bring_up(to));
  std::optional<Attributes> own = WARREN_TRY(find_in_upper(to.parent, to.name));
  std::string old_path = path_of(from.parent, from.name);
  std::string new_path = path_of(to.parent, to.name);
  std::string old_base_path = base_path_of(from.parent, from.name);
  bool is_whiteout = WARREN_TRY(whiteouts_of(to.parent, dirs_.at(to.parent)))
  ->contains(to.name);
  std::optional<Attributes> moved = WARREN_TRY(find_in_upper(from.parent, from.name));
  bool is_new_file = moved && moved->is_file() && find_copy(from.entry->inode) == nullptr;
  std::optional<Attributes> seen_from;
  if (from.in_base) seen_from = WARREN_TRY(find_seen(from.parent, from.name, moved));
  std::optional<std::string> replaced;
  if (is_new_file) {
    Copy* there = own ? find_copy(to.entry->inode) : nullptr;
    bool is_from_elsewhere = there != nullptr && there->base_path != base_path_of(to.parent, to.name);
    bool has_seen = !WARREN_TRY(is_unseen(to.parent, to.name, own, to.in_base));
    std::optional<Attributes> in_base = WARREN_TRY(find_in_base(dirs_.at(to.parent), to.name));  // not one that is gone
    replaced = WARREN_TRY(find_replaced(is_from_elsewhere ? std::nullopt : own, has_seen ? in_base : std::nullopt));
  }
  if (replaced) WARREN_TRY(upper_.reserve(replaced->size()));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(note_cover(to.parent, to.name, own, to.in_base));
  WARREN_TRY(from.in_base ? note_cover(from.parent, from.name, moved, from.in_base)
                          : end_cover(from.parent, from.name));
  bool is_new_there = own && own->is_file() && find_copy(to.entry->inode) == nullptr;
  bool replaces_new_file = is_new_there && (to.in_base || own->nlink <= 1);
  if (to.entry) WARREN_TRY(remove_own(upper_to, to.name, *to.entry, own));
  if (replaces_new_file) WARREN_TRY(upper_.remove_origin(own->inode));
  WARREN_TRY(upper().rename(upper_from, from.name, upper_to, to.name, RenameMode::kReplace));
  bool has_row = moved && !moved->is_directory() && opaque_.contains(moved->inode);
  if ((is_new_file && from.in_base) || has_row) WARREN_TRY(upper_.remove_origin(moved->inode));  // of its old place
  if (moved) applied_.erase(moved->inode);
  if (replaced) WARREN_TRY(upper_.keep_ancestor(moved->inode, as_bytes(*replaced)));
  if (from.entry->is_directory()) {
    WARREN_TRY(upper_.remove_whiteouts_below(new_path));
    WARREN_TRY(upper_.move_whiteouts_below(old_path, new_path));
  }
  if (from.in_base)
    WARREN_TRY(
        upper_.add_whiteout(upper_from, old_path, with_own_number(seen_from.value_or(*from.in_base)), old_base_path));
  if (is_whiteout) WARREN_TRY(upper_.cover_whiteout(new_path));
  WARREN_TRY(hide_base_below(from, to));
  Attributes changed = WARREN_TRY(upper().get_attributes(upper_to));
  WARREN_TRY(lose_covered_link(to, changed.mtime));
  WARREN_TRY(unit->commit());
  if (own && own->nlink <= 1) applied_.erase(own->inode);
  if (to.entry) record_removal(to.parent, to.name, *to.entry, own, std::nullopt, changed.mtime);
  settle_moved(from, to);
  end_whiteout(to.parent, to.name);
  if (from.entry->is_directory()) move_hidden_names(old_path, new_path);
  Dir& old_dir = dirs_.at(from.parent);
  if (from.in_base && old_dir.whiteouts) old_dir.whiteouts->insert(std::string(from.name));
  if (!from.in_base) hide_while_applying(from.parent, from.name);
  return Ok{};
}

Status OverlayFs::exchange(const Side& from, const Side& to) {
  WARREN_TRY(bring_up(to));
  Inode upper_from = WARREN_TRY(upper_dir(from.parent));
  Inode upper_to = WARREN_TRY(upper_dir(to.parent));
  std::string old_path = path_of(from.parent, from.name);
  std::string new_path = path_of(to.parent, to.name);
  std::optional<Attributes> first = WARREN_TRY(find_in_upper(from.parent, from.name));
  std::optional<Attributes> second = WARREN_TRY(find_in_upper(to.parent, to.name));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(note_cover(from.parent, from.name, first, from.in_base));
  WARREN_TRY(note_cover(to.parent, to.name, second, to.in_base));
  WARREN_TRY(upper().rename(upper_from, from.name, upper_to, to.name, RenameMode::kExchange));
  WARREN_TRY(keep_exchanged(from, to));
  WARREN_TRY(keep_exchanged(to, from));
  WARREN_TRY(upper_.move_whiteouts_below(old_path, kBetween));
  WARREN_TRY(upper_.move_whiteouts_below(new_path, old_path));
  WARREN_TRY(upper_.move_whiteouts_below(kBetween, new_path));
  WARREN_TRY(hide_base_below(from, to));
  WARREN_TRY(hide_base_below(to, from));
  Attributes changed = WARREN_TRY(upper().get_attributes(upper_to));
  WARREN_TRY(lose_covered_link(from, changed.mtime));
  WARREN_TRY(lose_covered_link(to, changed.mtime));
  WARREN_TRY(unit->commit());
  settle_moved(from, to);
  settle_moved(to, from);
  move_hidden_names(old_path, std::string(kBetween));
  move_hidden_names(new_path, old_path);
  move_hidden_names(std::string(kBetween), new_path);
  return Ok{};
}

// A new file has the merge base of the place where it is now, not of the one where it was.
Status OverlayFs::keep_exchanged(const Side& moved, const Side& to) {
  Inode number = moved.entry->inode;
  if (moved.entry->is_directory() || is_base_number(number)) return Ok{};
  if (moved.in_base || opaque_.contains(number)) WARREN_TRY(upper_.remove_origin(number));
  applied_.erase(number);
  opaque_.erase(number);
  if (!moved.entry->is_file()) return Ok{};
  std::optional<std::string> replaced = WARREN_TRY(find_replaced(std::nullopt, to.in_base));
  return replaced ? upper_.keep_ancestor(number, as_bytes(*replaced)) : Status(Ok{});
}

void OverlayFs::settle_moved(const Side& from, const Side& to) {
  Inode number = from.entry->inode;
  if (from.entry->is_directory()) {
    Dir& moved = dirs_.at(number);
    moved.parent = to.parent;
    moved.name = to.name;
    dirs_.at(from.parent).subdirectories.reset();
    dirs_.at(to.parent).subdirectories.reset();
  }
  // The place in the base of another node stays known. It counts again if its copy is lost or discarded.
}

}  // namespace warren
