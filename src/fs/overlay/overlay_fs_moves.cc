// The part of OverlayFs for renames of directories that the base has made, too. While the base has such a directory
// only at its new path, it shows that one, and the rows stay as they are: the base may take its rename back. They
// follow as soon as that is needed: the base has something else at the old path, or the agent moves the directory
// again.
#include "base/side_change.h"
#include "fs/overlay/overlay_change.h"

namespace warren {
namespace {

bool has_both(FileSystem& base, const std::string& from, const std::string& to) {
  Result<std::optional<Attributes>> old_node = find_in_tree(base, from);
  Result<std::optional<Attributes>> new_node = find_in_tree(base, to);
  return old_node.ok() && *old_node && new_node.ok() && *new_node && (*new_node)->is_directory();
}

}  // namespace

// For rows that were just read.
Status OverlayFs::take_moves(std::vector<Origin>& rows) {
  if (has_moves_) {
    forget_settled_moves(rows);
  } else {
    std::vector<Origin> followed = rows;
    followed_ = WARREN_TRY(follow_moved_dirs(upper_, base_, followed));
    has_moves_ = true;
  }
  for (Origin& row : rows) {
    if (std::optional<std::string> now = followed_.find(row.base_path)) row.base_path = *std::move(now);
  }
  return Ok{};
}

// Another process may have written the rows, for example an apply that has made the rename: then the directory's own
// row has the new path, and another directory may have the old one. A move holds as long as its row is that of the copy
// which it was found for.
void OverlayFs::forget_settled_moves(const std::vector<Origin>& rows) {
  if (followed_.empty()) return;
  BaseMoves left;
  for (const Origin& row : rows) {
    auto moved = followed_.all().find(row.base_path);
    if (moved == followed_.all().end()) continue;
    Copy* copy = find_copy(number_of(row.upper));
    if (copy && copy->base_path == moved->second) left.add(moved->first, moved->second);
  }
  followed_ = std::move(left);
}

// Whether a name of the base may be the old or the new one of a directory that the agent has moved.
bool OverlayFs::concerns_moves(Inode base_dir, std::string_view name) {
  Inode dir = number_of_base(base_dir);
  std::string path = base_path_of(dir, name);
  for (const auto& [from, to] : followed_.all()) {
    if (path == from || path == to) return true;
  }
  Result<std::optional<Attributes>> top = find_in_upper(dir, name);
  if (!top.ok()) return false;
  if (auto known = dirs_.find(dir); known != dirs_.end() && !*top) {  // most events end here
    auto whiteouts = whiteouts_of(dir, known->second);
    if (!whiteouts.ok() || !(*whiteouts)->contains(name)) return false;
  }
  for (const auto& [number, copy] : copies_) {
    bool is_old_name = copy.seen && copy.seen->is_directory() && copy.base_path == path;
    if (is_old_name) return true;
  }
  if (!*top || !(*top)->is_directory()) return false;
  Copy* copy = find_copy(number_of((*top)->inode));
  return copy && copy->is_noted && copy->base_path != path;
}

bool OverlayFs::follow_moves(Inode base_dir, std::string_view name) {
  {
    Result<Scope> scope = read_scope();
    if (!scope.ok() || !concerns_moves(base_dir, name)) return false;
  }
  return follow_moves();
}

// Moves of which the base has both names: what shows the new one goes on doing so, and the old one shows again.
// None while an apply is under way: it writes the rows itself, or takes its renames back.
BaseMoves OverlayFs::list_settled(const BaseMoves& now) const {
  BaseMoves settled;
  if (is_applying_) return settled;
  for (const BaseMoves* moves : {&followed_, &now}) {
    for (const auto& [from, to] : moves->all()) {
      if (has_both(base_, from, to)) settled.add(from, to);
    }
  }
  return settled;
}

bool OverlayFs::follow_moves() {
  auto find_moves = [&]() -> Result<BaseMoves> {
    std::vector<Origin> rows = WARREN_TRY(upper_.list_origins());
    return follow_moved_dirs(upper_, base_, rows);
  };
  {
    Result<Scope> scope = read_scope();
    if (!scope.ok()) return false;
    Result<BaseMoves> now = find_moves();
    if (!now.ok()) return false;
    if (list_settled(*now).empty()) return *now != followed_ && take_up_moves({}).ok();
  }
  SideChange not_by_the_agent;
  auto settle = [&]() -> Status {  // with the rows of this unit: an apply may have written them meanwhile
    BaseMoves now = WARREN_TRY(find_moves());
    return take_up_moves(list_settled(now));
  };
  return change(settle).ok();
}

Status OverlayFs::take_up_moves(const BaseMoves& settled) {
  WARREN_TRY(settle_moves(settled));
  has_moves_ = false;
  WARREN_TRY(reload());
  return enter_copied_dirs();
}

// After their origins have changed: callers know them by their numbers.
Status OverlayFs::enter_copied_dirs() {
  for (const auto& [number, copy] : copies_) {
    auto known = dirs_.find(number);
    if (known == dirs_.end() || !copy.is_noted || removed_.contains(number)) continue;
    std::optional<Attributes> there = WARREN_TRY(find_in_tree(base_, copy.base_path));
    bool shows = there && there->is_directory();
    know_dir(number, known->second.parent, known->second.name, shows ? std::optional(there->inode) : std::nullopt);
  }
  return Ok{};
}

// Writes the rows. Numbers do not change: those who use them know these.
Status OverlayFs::settle_moves(BaseMoves moves) {
  if (moves.empty()) return Ok{};
  std::vector<Origin> rows = WARREN_TRY(upper_.list_origins());
  std::vector<Whiteout> whiteouts = WARREN_TRY(upper_.list_whiteouts());
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  for (Origin& row : rows) {
    Origin before = row;
    if (!WARREN_TRY(follow(moves, base_, row))) continue;
    WARREN_TRY(upper_.put_origin(row));
    bool is_moved_dir = moves.contains(before.base_path) && row.seen && row.seen->is_directory();
    if (!is_moved_dir) continue;
    base_.reserve_number(row.seen->inode, row.seen->generation);
    if (Copy* copy = find_copy(number_of(row.upper))) copy->seen = row.seen;
    for (const Whiteout& hidden : whiteouts) {  // the name that it had: the base may have another directory there
      bool is_its_name = hidden.seen && hidden.seen->inode == before.seen->inode;
      if (is_its_name) WARREN_TRY(upper_.remove_whiteout(hidden.path));
    }
  }
  WARREN_TRY(unit->commit());
  for (auto& [number, dir] : dirs_) dir.whiteouts.reset();
  BaseMoves left;
  for (const auto& [from, to] : followed_.all()) {
    if (!moves.contains(from)) left.add(from, to);
  }
  followed_ = std::move(left);
  return Ok{};
}

}  // namespace warren
