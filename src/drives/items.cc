#include "drives/items.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/files/file_verbs.h"
#include "agent/files/tree_copy.h"
#include "base/limits.h"
#include "base/path.h"
#include "drives/known_drives.h"
#include "drives/uuid.h"
#include "fs/list_dir.h"
#include "fs/mounts/mount_fs.h"
#include "fs/mounts/mount_points.h"
#include "fs/path_ops.h"
#include "fs/stoppable_remove.h"
#include "fs/walked_dirs.h"

namespace warren {
namespace {

// Nodes of a mounted backend have the mount's slot in these bits (fs/mounts/mount_fs.h), and no rows.
bool is_in_agent_file(Inode node) { return (node.value >> 56U) == 0; }

std::vector<std::string_view> names_of(const Ref& ref) {
  std::vector<std::string_view> names{kDrivesPath.substr(1), ref.drive};
  for (std::string_view rest = ref.path; rest.size() > 1;) {
    rest.remove_prefix(1);
    std::size_t end = rest.find('/');
    names.push_back(rest.substr(0, end));
    rest = end == rest.npos ? std::string_view() : rest.substr(end);
  }
  return names;
}

bool is_gone(const Error& error) {
  return error.code() == Code::kNotFound || error.code() == Code::kStale || error.code() == Code::kNotDirectory;
}

}  // namespace

bool is_as_fetched(const ItemRow& row, const Attributes& node) {
  return !row.sha256.empty() && row.stamp == stamp_of_item(node);
}

std::string stamp_of_item(const Attributes& node) {
  return fmt::format("{} {}.{}", node.size, node.mtime.seconds, node.mtime.nanoseconds);
}

Items::Items(Agent& agent, FileSystem& view, Clock& clock, const std::atomic<bool>* is_cancelled)
    : agent_(agent), view_(view), clock_(clock), rows_(agent.store()), is_cancelled_(is_cancelled) {}

// The tree that rows are about. For identity alone; whatever a caller gets to see goes through the view.
Result<FileSystem*> Items::own() { return agent_.namespace_tree(); }

// Looking.

Result<std::optional<Attributes>> Items::find_path(const std::vector<std::string_view>& names) {
  Attributes at;
  at.inode = kRootInode;
  for (std::string_view name : names) {
    Result<Attributes> next = view_.lookup(at.inode, name);
    if (!next.ok() && is_gone(next.error())) return std::optional<Attributes>();
    at = WARREN_TRY(std::move(next));
    if (at.is_symlink()) {
      return Error(Code::kDenied, fmt::format("{} is a symbolic link, and drives have none", quote(name)),
                   "address what it leads to by its own drive and path");
    }
  }
  return std::optional(at);
}

Result<std::optional<Attributes>> Items::find(const Ref& ref) { return find_path(names_of(ref)); }

Result<Ref> Items::page_at(const Ref& ref) {
  std::optional<Attributes> node = WARREN_TRY(find(ref));
  if (!node || !node->is_directory()) return ref;
  Ref page = child_of(ref, kPageOfFolder);
  std::optional<Attributes> there = WARREN_TRY(find(page));
  return there && there->is_file() ? page : ref;
}

Result<Ref> Items::find_page(const Ref& ref, std::string_view source) {
  Ref page = WARREN_TRY(page_at(ref));
  std::optional<Attributes> node = WARREN_TRY(find(page));
  if (node && node->is_file()) return page;
  std::optional<ItemRow> row = WARREN_TRY(rows_.find_by_source(source));
  if (!row) return ref;
  std::optional<Ref> moved = WARREN_TRY(find_by_id(row->id));
  return moved.value_or(ref);
}

Result<Ref> Items::make_place_for_page(const Ref& ref) {
  std::vector<Ref> above;  // nearest first
  for (Ref at = parent_of(ref); !at.is_drive(); at = parent_of(at)) above.push_back(at);
  for (auto at = above.rbegin(); at != above.rend(); ++at) {
    std::optional<Attributes> node = WARREN_TRY(find(*at));
    if (!node) return ref;
    if (node->is_directory()) continue;
    std::optional<ItemRow> row = WARREN_TRY(find_row(*at, *node));
    if (!row || !looks_like_web_address(row->source)) return ref;  // that it is in the way is reported by writing
    Ref aside = child_of(parent_of(*at), std::string(name_of(*at)) + std::string(kPageOfFolder));
    WARREN_TRY(move(*at, aside, Replace::kNo));
    WARREN_TRY(make_dir(*at));
    WARREN_TRY(move(aside, child_of(*at, kPageOfFolder), Replace::kNo));
    return ref;
  }
  std::optional<Attributes> node = WARREN_TRY(find(ref));
  return node && node->is_directory() ? child_of(ref, kPageOfFolder) : ref;
}

// Searches directory entries at each level. Empty if the node has no name.
Result<std::string> Items::path_of(Inode node) {
  FileSystem* tree = WARREN_TRY(own());
  std::string path;
  for (int depth = 0; node != kRootInode; ++depth) {
    if (depth > limits::kTreeDepth) return Error(Code::kCorrupt, fmt::format("inode {} is inside itself", node.value));
    std::vector<EntryName> names = WARREN_TRY(tree->list_names_of(node));
    if (names.empty()) return std::string();
    path = fmt::format("/{}{}", names.front().name, path);
    node = names.front().parent;
  }
  return path;
}

Result<std::optional<Ref>> Items::find_by_id(std::string_view id) {
  std::optional<ItemRow> row = WARREN_TRY(rows_.find_by_id(id));
  if (!row) return std::optional<Ref>();
  std::optional<Ref> seen = find_ref_of(row->path);
  if (seen) {
    std::optional<Attributes> there = WARREN_TRY(find(*seen));
    if (there && there->inode == row->node) return seen;
    // Saved by renaming a new file over it: the same item.
    FileSystem* tree = WARREN_TRY(own());
    Result<Attributes> old = tree->get_attributes(row->node);
    bool is_old_gone = old.ok() ? old->nlink == 0 : is_gone(old.error());
    bool is_candidate = there && there->is_file() && is_old_gone;
    if (is_candidate && !WARREN_TRY(rows_.find(there->inode))) return seen;  // with a row it is an item of its own
  }
  Result<std::string> path = path_of(row->node);
  if (!path.ok() && !is_gone(path.error())) return std::move(path).take_error();
  std::optional<Ref> moved = path.ok() ? find_ref_of(*path) : std::nullopt;
  if (!moved) return std::optional<Ref>();
  std::optional<Attributes> there = WARREN_TRY(find(*moved));
  return there && there->inode == row->node ? moved : std::optional<Ref>();
}

Result<std::optional<ItemRow>> Items::find_row(const Ref& ref, const Attributes& node) {
  if (!node.is_file() || !is_in_agent_file(node.inode)) return std::optional<ItemRow>();
  std::optional<ItemRow> row = WARREN_TRY(rows_.find(node.inode));
  if (!row) {
    row = WARREN_TRY(rows_.find_by_path(namespace_path(ref)));
    if (!row) return row;
    FileSystem* tree = WARREN_TRY(own());
    Result<Attributes> old = tree->get_attributes(row->node);
    bool is_old_gone = old.ok() ? old->nlink == 0 : is_gone(old.error());
    if (!is_old_gone) return std::optional<ItemRow>();  // moved away: another item
  }
  if (!looks_like_uuid(row->id)) return std::optional<ItemRow>();  // not a row of ours
  if (row->stamp == stamp_of_item(node)) return row;
  row->mime.clear();
  row->title.clear();
  return row;
}

Result<std::vector<Items::Entry>> Items::list(const Ref& dir) {
  std::optional<Attributes> node = WARREN_TRY(find(dir));
  if (!node) return Error(Code::kNotFound, fmt::format("no {}", quote(to_string(dir))));
  if (!node->is_directory()) return Error(Code::kNotDirectory, fmt::format("{} is a file", quote(to_string(dir))));
  std::vector<Entry> entries;
  for (DirEntry& entry : WARREN_TRY(list_dir(view_, node->inode, DirDetail::kAttributes))) {
    bool belongs = entry.attributes && (entry.attributes->is_directory() || entry.attributes->is_file());
    if (belongs) entries.push_back({.name = std::move(entry.name), .node = *entry.attributes});
  }
  std::ranges::stable_partition(entries, [](const Entry& entry) { return entry.node.is_directory(); });
  return entries;
}

Result<std::vector<std::string>> Items::list_drives() {
  std::vector<std::string> drives;
  std::optional<Attributes> top = WARREN_TRY(find_path({kDrivesPath.substr(1)}));
  if (!top || !top->is_directory()) return drives;
  for (DirEntry& entry : WARREN_TRY(list_dir(view_, top->inode, DirDetail::kAttributes))) {
    bool is_drive = entry.attributes && entry.attributes->is_directory() && is_drive_name(entry.name);
    if (is_drive) drives.push_back(std::move(entry.name));
  }
  return drives;
}

Status Items::walk_items(const Ref& top, const Visitor& visit) {
  std::optional<Attributes> start;
  {
    auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
    start = WARREN_TRY(find(top));
  }
  if (!start) return Error(Code::kNotFound, fmt::format("no {}", quote(to_string(top))));
  if (start->is_file()) {
    WARREN_TRY(visit(top, *start));
    return Ok{};
  }
  WalkedDirs walked(view_);
  std::vector<std::pair<Ref, Inode>> left{{top, start->inode}};
  while (!left.empty()) {
    auto [dir, inode] = std::move(left.back());
    left.pop_back();
    WARREN_TRY(walked.enter(inode, to_string(dir)));
    Result<std::vector<Entry>> entries = list_in_unit(dir);
    bool may_be_missed =
        !entries.ok() && dir != top && (entries.error().code() == Code::kDenied || is_gone(entries.error()));
    if (may_be_missed) continue;
    std::vector<Entry> all = WARREN_TRY(std::move(entries));
    for (const Entry& entry : all) {
      if (entry.node.is_directory()) left.emplace_back(child_of(dir, entry.name), entry.node.inode);
      else if (!WARREN_TRY(visit(child_of(dir, entry.name), entry.node))) return Ok{};
    }
  }
  return Ok{};
}

Result<std::vector<Items::Entry>> Items::list_in_unit(const Ref& dir) {
  auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
  return list(dir);
}

// Changing.

Result<std::optional<ItemRow>> Items::touch(const Ref& ref, const Attributes& node) {
  if (!node.is_file() || !is_in_agent_file(node.inode)) return std::optional<ItemRow>();
  std::string path = namespace_path(ref);
  std::optional<ItemRow> row = WARREN_TRY(find_row(ref, node));
  if (!row) {
    row = ItemRow{.node = node.inode, .id = make_uuid7(clock_.now()), .path = path};
    WARREN_TRY(rows_.put(*row).within("store the item's row"));
    return row;
  }
  if (row->node != node.inode) WARREN_TRY(rows_.rekey(row->node, node.inode));
  row->node = node.inode;
  if (row->path != path && node.nlink <= 1) WARREN_TRY(rows_.set_path(node.inode, path));
  return row;
}

Status Items::make_parent(const Ref& ref) {
  if (ref.is_drive()) return Ok{};
  WARREN_TRY(make_dir(parent_of(ref)));
  return Ok{};
}

Result<Attributes> Items::make_dir(const Ref& ref) {
  Inode at = kRootInode;
  Attributes node;
  for (std::string_view name : names_of(ref)) {
    Result<Attributes> next = view_.lookup(at, name);
    if (!next.ok() && next.error().code() == Code::kNotFound) next = view_.make_dir(at, name, {.mode = 0755});
    node = WARREN_TRY(std::move(next));
    if (node.is_symlink()) {
      return Error(Code::kDenied, fmt::format("{} is a symbolic link, and drives have none", quote(name)));
    }
    if (!node.is_directory()) {
      return Error(Code::kNotDirectory,
                   fmt::format("{} is not possible, because {} is a file", quote(to_string(ref)), quote(name)),
                   "choose a path that has no item above it");
    }
    at = node.inode;
  }
  return node;
}

Result<Attributes> Items::write(const Ref& ref, std::string_view content, const ItemOrigin& origin) {
  if (ref.is_drive()) {
    return Error(Code::kIsDirectory, fmt::format("{} is a drive, not an item", quote(to_string(ref))),
                 "add a path after the drive");
  }
  WARREN_TRY(make_parent(ref));
  std::optional<Attributes> old = WARREN_TRY(find(ref));
  if (old && !old->is_file()) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(to_string(ref))));
  WARREN_TRY(write_file(view_, namespace_path(ref), as_bytes(content)));
  std::optional<Attributes> node = WARREN_TRY(find(ref));
  if (!node) return Error(Code::kStale, fmt::format("{} is gone again", quote(to_string(ref))));
  std::optional<ItemRow> row = WARREN_TRY(touch(ref, *node));
  if (!row) return *node;
  row->sha256 = origin.sha256;   // none: it is not what was fetched any more
  if (!origin.source.empty()) {  // otherwise it still comes from where it came
    row->source = origin.source;
    row->fetched_at = origin.fetched_at;
  }
  row->mime = origin.mime;
  row->title = origin.title;
  row->stamp = stamp_of_item(*node);
  row->path = namespace_path(ref);
  WARREN_TRY(rows_.put(*row));
  return *node;
}

Status Items::check_not_cancelled() const {
  if (is_cancelled_ == nullptr || !*is_cancelled_) return Ok{};
  return Error(Code::kUnavailable, "the call was cancelled");
}

Status Items::remove(const Ref& ref) {
  WARREN_TRY(check_no_mount(view_, namespace_path(ref)));
  std::vector<Inode> files;
  std::vector<Ref> refs;
  WARREN_TRY(walk_items(ref, [&](const Ref& at, const Attributes& node) -> Result<bool> {
    WARREN_TRY(check_not_cancelled());
    files.push_back(node.inode);
    if (at != ref) refs.push_back(at);
    return true;
  }));
  // One by one, so that a large tree can be cancelled; then what is left of the directories.
  for (const Ref& one : refs) {
    WARREN_TRY(check_not_cancelled());
    WARREN_TRY(warren::remove(view_, namespace_path(one)));
  }
  WARREN_TRY(remove_stoppable(view_, namespace_path(ref), {.recursive = Recursive::kYes},
                              [this] { return check_not_cancelled(); }));
  for (Inode file : files) {
    if (!is_in_agent_file(file)) continue;
    Result<Attributes> left = view_.get_attributes(file);  // a hard link elsewhere keeps it
    if (left.ok() && left->nlink > 0) continue;
    WARREN_TRY(rows_.remove(file));
  }
  return Ok{};
}

Status Items::check_target(const Ref& from, const Attributes& what, const Ref& to, Replace replace) {
  if (from.is_drive() || to.is_drive()) {
    return Error(Code::kInvalid, "a drive as a whole is neither copied nor moved", "name something inside the drive");
  }
  if (is_at_or_below(to, from)) {
    return Error(Code::kInvalid,
                 from == to ? fmt::format("{} is the source and the target", quote(to_string(to)))
                            : fmt::format("{} is inside {}", quote(to_string(to)), quote(to_string(from))),
                 "choose another target");
  }
  std::optional<Attributes> target = WARREN_TRY(find(to));
  if (!target) return Ok{};
  bool may_replace = replace == Replace::kYes && target->is_file() && what.is_file();
  if (may_replace) return Ok{};
  return Error(Code::kExists, fmt::format("{} exists already", quote(to_string(to))));
}

Status Items::move(const Ref& from, const Ref& to, Replace replace) {
  std::optional<Attributes> node = WARREN_TRY(find(from));
  if (!node) return Error(Code::kNotFound, fmt::format("no {}", quote(to_string(from))));
  WARREN_TRY(check_target(from, *node, to, replace));
  WARREN_TRY(make_parent(to));
  std::string old_path = namespace_path(from);
  std::string new_path = namespace_path(to);
  std::optional<Attributes> replaced = WARREN_TRY(find(to));
  WARREN_TRY(touch(from, *node));
  WARREN_TRY(rename(view_, old_path, new_path, replaced ? RenameMode::kReplace : RenameMode::kNoReplace));
  if (replaced && is_in_agent_file(replaced->inode) && replaced->nlink <= 1) WARREN_TRY(rows_.remove(replaced->inode));
  if (node->is_file()) return rows_.set_path(node->inode, new_path);
  return rows_.move_below(old_path, new_path);
}

// A copy is an item of its own, from the same source.
Status Items::copy_one(const Ref& from, const Ref& to, const Attributes& node, std::vector<CopiedPath>& copies) {
  std::optional<ItemRow> old = WARREN_TRY(find_row(from, node));
  bool is_new = !WARREN_TRY(find(to));
  std::string source = namespace_path(from);
  std::string target = namespace_path(to);
  WARREN_TRY(copy_one_file(view_, source, target, is_new ? CopyTarget::kNew : CopyTarget::kMayExist));
  Attributes copy = WARREN_TRY(lstat(view_, target));
  if (is_new) copies.push_back({.from = source, .to = target, .made = copy});
  auto unit = WARREN_TRY(view_.begin(UnitAccess::kWrite));
  std::optional<Attributes> made = WARREN_TRY(find(to));
  if (!made) return Error(Code::kStale, fmt::format("{} is gone again", quote(to_string(to))));
  std::optional<ItemRow> row = WARREN_TRY(touch(to, *made));
  if (!row || !old) return unit->commit();
  ItemRow next = std::move(*old);
  next.node = row->node;
  next.id = std::move(row->id);
  next.path = namespace_path(to);
  next.stamp = stamp_of_item(*made);
  WARREN_TRY(rows_.put(next));
  return unit->commit();
}

Status Items::copy(const Ref& from, const Ref& to, Replace replace) {
  std::vector<CopiedPath> made;
  return copy_noting(from, to, replace, made);
}

// Adds to `made` what was not there before, a directory before what is in it.
Status Items::copy_noting(const Ref& from, const Ref& to, Replace replace, std::vector<CopiedPath>& made) {
  auto copy_node = [&](const Ref& source, const Ref& target, const Attributes& node) -> Status {
    if (!node.is_directory()) return copy_one(source, target, node, made);
    bool is_new = !WARREN_TRY(find(target));
    WARREN_TRY(make_dir(target));
    Attributes dir = WARREN_TRY(lstat(view_, namespace_path(target)));
    if (is_new) made.push_back({.from = namespace_path(source), .to = namespace_path(target), .made = dir});
    return Ok{};
  };
  std::optional<Attributes> node = WARREN_TRY(find(from));
  if (!node) return Error(Code::kNotFound, fmt::format("no {}", quote(to_string(from))));
  WARREN_TRY(check_target(from, *node, to, replace));
  WARREN_TRY(make_parent(to));
  if (node->is_file()) return copy_node(from, to, *node);
  if (!node->is_directory()) return Error(Code::kInvalid, fmt::format("{} is not a file", quote(to_string(from))));
  std::string top = namespace_path(from);
  std::size_t count = 0;
  auto copy_entry = [&](const WalkEntry& entry) -> Result<WalkNext> {
    WARREN_TRY(check_not_cancelled());
    if (++count > kCopiedItems) {
      return Error(Code::kLimit, fmt::format("{} has more than {} items", quote(to_string(from)), kCopiedItems),
                   "copy its directories one by one");
    }
    std::optional<Ref> source = find_ref_of(entry.path);
    std::optional<Ref> target = find_ref_of(namespace_path(to) + entry.path.substr(top.size()));
    if (!source || !target) return WalkNext::kContinue;
    bool is_item = entry.attributes.is_directory() || entry.attributes.is_file();
    if (is_item) WARREN_TRY(copy_node(*source, *target, entry.attributes));
    return WalkNext::kContinue;
  };
  return walk(view_, top, copy_entry, {.follow = Follow::kNo});
}

Result<bool> Items::are_apart(const Ref& from, const Ref& to) {
  std::optional<Attributes> source = WARREN_TRY(find(from));
  if (!source) return false;
  for (Ref at = to;; at = parent_of(at)) {
    std::optional<Attributes> target = WARREN_TRY(find(at));
    if (target) return are_in_different_mounts(source->inode, target->inode);
    if (at.is_drive()) return are_in_different_mounts(source->inode, kRootInode);
  }
}

}  // namespace warren
