// Items: copying and moving between mounts, and between places with different rules.
#include <fmt/format.h>

#include "agent/files/file_verbs.h"
#include "agent/files/tree_copy.h"
#include "base/path.h"
#include "drives/items.h"
#include "fs/mounts/mount_fs.h"
#include "fs/mounts/mount_points.h"
#include "fs/path_ops.h"

namespace warren {

// The directories above it that do not exist, the nearest first.
Result<std::vector<Ref>> Items::missing_above(const Ref& ref) {
  std::vector<Ref> missing;
  for (Ref at = ref; !at.is_drive();) {
    at = parent_of(at);
    if (WARREN_TRY(find(at))) break;
    missing.push_back(at);
  }
  return missing;
}

Status Items::copy_apart(const Ref& from, const Ref& to, Replace replace) {
  std::vector<Ref> missing = WARREN_TRY(missing_above(to));
  std::vector<CopiedPath> made;
  Status copied = copy_noting(from, to, replace, made);
  if (copied.ok()) return copied;
  bool is_stopped = !check_not_cancelled().ok();
  bool is_new = !made.empty() && made.front().to == namespace_path(to);
  StoppedIn target = is_new ? StoppedIn::kNew : StoppedIn::kExisting;
  Error why = is_stopped ? stopped_copy(copied.error(), made.size(), quote(to_string(to)), target)
                         : take_back(view_, made, copied.error());
  for (const Ref& dir : missing) remove_dir(view_, namespace_path(dir)).ignore("somebody else may use it");
  return why;
}

// Refuses before anything is copied what a mount may not be able to hold.
Status Items::check_movable(const Ref& from, Apart apart) {
  WARREN_TRY(check_no_mount(view_, namespace_path(from)));
  std::size_t count = 0;
  auto look = [&](const WalkEntry& entry) -> Result<WalkNext> {
    WARREN_TRY(check_not_cancelled());
    const Attributes& node = entry.attributes;
    if (++count > kCopiedItems) {
      return Error(Code::kLimit, fmt::format("{} has more than {} items", quote(to_string(from)), kCopiedItems),
                   "move its directories one by one");
    }
    if (apart == Apart::kRules || node.is_directory()) return WalkNext::kContinue;
    if (!node.is_file()) {
      return Error(Code::kUnsupported,
                   fmt::format("{} is not a file, and only files are moved to another mount", quote(entry.path)),
                   "remove it first, or move the items one by one");
    }
    if (node.size <= kAcrossBytesMax) return WalkNext::kContinue;
    return Error(Code::kTooLarge, fmt::format("{} has {} bytes, and a file that is moved to another mount at most {}",
                                              quote(entry.path), node.size, kAcrossBytesMax));
  };
  return walk(view_, namespace_path(from), look, {.follow = Follow::kNo});
}

// What is in the agent file before and after it stays the same item.
Status Items::move_rows(TreeCopy& copy, const std::vector<MovedRow>& rows, bool has_rows_there) {
  std::unique_ptr<Unit> unit;
  if (has_rows_there) unit = WARREN_TRY(view_.begin(UnitAccess::kWrite));
  WARREN_TRY(copy.remove_originals());
  for (const MovedRow& moved : rows) {
    Result<Attributes> left = view_.get_attributes(moved.item);
    if (left.ok() && left->nlink > 0) continue;  // a hard link elsewhere keeps it, and the copy is an item of its own
    WARREN_TRY(rows_.remove(moved.row.node));
    std::optional<Attributes> node;
    if (has_rows_there) node = WARREN_TRY(find(moved.to));
    bool is_taken = !node || WARREN_TRY(rows_.find_by_id(moved.row.id));
    if (is_taken) continue;
    ItemRow row = moved.row;
    row.node = node->inode;
    row.path = namespace_path(moved.to);
    if (moved.is_stamped) row.stamp = stamp_of_item(*node);
    WARREN_TRY(rows_.put(row));
  }
  return unit ? unit->commit() : Status(Ok{});
}

Status Items::give_ids(const Ref& ref) {
  auto unit = WARREN_TRY(view_.begin(UnitAccess::kWrite));
  std::optional<Attributes> top = WARREN_TRY(find(ref));
  if (!top || are_in_different_mounts(top->inode, kRootInode)) return Ok{};
  WARREN_TRY(walk_items(ref, [&](const Ref& at, const Attributes& item) -> Result<bool> {
    WARREN_TRY(touch(at, item));
    return true;
  }));
  return unit->commit();
}

Status Items::move_apart(const Ref& from, const Ref& to, Replace replace) {
  std::optional<Attributes> node = WARREN_TRY(find(from));
  if (!node) return Error(Code::kNotFound, fmt::format("no {}", quote(to_string(from))));
  WARREN_TRY(check_target(from, *node, to, replace));
  bool are_mounts = WARREN_TRY(are_apart(from, to));
  WARREN_TRY(check_movable(from, are_mounts ? Apart::kMounts : Apart::kRules));
  std::vector<MovedRow> rows;
  WARREN_TRY(walk_items(from, [&](const Ref& at, const Attributes& item) -> Result<bool> {
    std::optional<ItemRow> row = WARREN_TRY(find_row(at, item));
    if (!row) return true;
    bool is_stamped = row->stamp == stamp_of_item(item);
    Ref there{.drive = to.drive, .path = to.path + at.path.substr(from.path.size())};
    rows.push_back({.row = *std::move(row), .item = item.inode, .to = std::move(there), .is_stamped = is_stamped});
    return true;
  }));
  std::vector<Ref> missing = WARREN_TRY(missing_above(to));
  bool may_replace = replace == Replace::kYes && node->is_file();
  TreeCopy copy(view_, {.target = may_replace ? CopyTarget::kMayExist : CopyTarget::kNew,
                        .keeps = CopyKeeps::kXattrsToo,
                        .check = [this] { return check_not_cancelled(); }});
  Status copied = make_parent(to);
  if (copied.ok()) copied = copy.run(namespace_path(from), namespace_path(to));
  if (copied.ok()) copied = copy.sync();
  if (!copied.ok()) {
    for (const Ref& dir : missing) remove_dir(view_, namespace_path(dir)).ignore("somebody else may use it");
    return copied;
  }
  Status removed = move_rows(copy, rows, !are_mounts && !are_in_different_mounts(node->inode, kRootInode));
  if (removed.ok()) {
    give_ids(to).ignore("an item without a row gets one when it is touched next");
    return removed;
  }
  return original_stays(removed.error(), quote(to_string(from)), quote(to_string(to)));
}

}  // namespace warren
