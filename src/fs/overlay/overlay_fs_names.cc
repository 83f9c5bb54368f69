// The part of OverlayFs for names: lookup, creation, removal.
#include <algorithm>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/list_dir.h"
#include "fs/overlay/overlay_change.h"
#include "fs/path_ops.h"
#include "fs/walked_dirs.h"

namespace warren {
namespace {

constexpr std::uint32_t kPermissions = 07777;

Error no_entry(std::string_view name) { return {Code::kNotFound, fmt::format("no {}", quote(name))}; }

// Turns "not found" into nullopt, which is a valid answer when merging.
template <class T>
Result<std::optional<T>> unless_missing(Result<T> found) {
  if (found.ok()) return std::optional<T>(std::move(found).take_value());
  Code code = found.error().code();
  if (code == Code::kNotFound) return std::optional<T>();
  return std::move(found).error();
}

// The base's directory may have been removed meanwhile; then nothing shows through any more.
template <class T>
Result<std::optional<T>> unless_gone(Result<T> found) {
  if (!found.ok() && (found.error().code() == Code::kStale || found.error().code() == Code::kNotDirectory)) {
    return std::optional<T>();
  }
  return unless_missing(std::move(found));
}

bool is_makeable(std::uint32_t type) {
  return type == S_IFREG || type == S_IFIFO || type == S_IFSOCK || type == S_IFCHR || type == S_IFBLK;
}

}  // namespace

OverlayFs::Dir& OverlayFs::know_dir(Inode number, Inode parent, std::string_view name, std::optional<Inode> base) {
  Dir& dir = dirs_[number];
  dir.parent = parent;
  if (dir.name != name) dir.name = name;
  if (dir.base != base) {
    if (base) base_.retain(*base).ignore("the next lookup in it reports that it is gone");
    if (base && *base != number) shown_as_[*base] = number;
    if (dir.base) base_.forget(*dir.base, 1);
    dir.base = base;
    dir.subdirectories.reset();
  }
  return dir;
}

Result<OverlayFs::Dir*> OverlayFs::enter(Inode number) {
  if (number == kRootInode && !dirs_.contains(kRootInode)) know_dir(kRootInode, kRootInode, "", kRootInode);
  auto known = dirs_.find(number);
  if (known != dirs_.end() && !is_gone(number)) {
    WARREN_TRY(join_base(number, known->second));
    return &known->second;
  }
  View where = WARREN_TRY(view(number));
  Attributes found = WARREN_TRY(layer_attributes(where));
  if (!found.is_directory()) return Error(Code::kNotDirectory, "it is not a directory");
  return Error(Code::kStale, fmt::format("directory {} was not looked up", number.value));
}

// A program may use a directory that was new here when it was looked up, and that an apply has written to the base
// since.
Status OverlayFs::join_base(Inode number, Dir& dir) {
  if (dir.base || is_base_number(number) || removed_.contains(number)) return Ok{};
  Copy* copy = find_copy(number);
  if (!copy) return Ok{};
  std::optional<Inode> base = WARREN_TRY(find_base_dir(dir.parent, dir.name, copy));
  if (base) know_dir(number, dir.parent, dir.name, base);
  return Ok{};
}

Result<OverlayFs::Dir*> OverlayFs::enter_to_change(Inode number) {
  Dir* dir = WARREN_TRY(enter(number));
  if (removed_.contains(number)) return Error(Code::kNotFound, "the directory was removed");
  return dir;
}

Result<OverlayFs::Names*> OverlayFs::whiteouts_of(Inode number, Dir& dir) {
  if (!dir.whiteouts) {
    std::string path = path_of(number);
    std::vector<std::string> names = WARREN_TRY(upper_.list_whiteouts_in(path));
    dir.whiteouts.emplace(names.begin(), names.end());
    auto hidden = removed_meanwhile_.find(path);
    if (hidden != removed_meanwhile_.end()) dir.whiteouts->insert(hidden->second.begin(), hidden->second.end());
  }
  return &*dir.whiteouts;
}

// The directory of the base that shows through a directory of the upper layer.
Result<std::optional<Inode>> OverlayFs::find_base_dir(Inode parent, std::string_view name, const Copy* copy) {
  std::optional<Attributes> found;
  Dir* dir = WARREN_TRY(enter(parent));
  bool is_elsewhere = copy && (!dir->base || copy->base_path != base_path_of(parent, name));
  if (is_elsewhere) found = WARREN_TRY(find_in_tree(base_, copy->base_path));
  else if (dir->base) found = WARREN_TRY(unless_gone(base_.lookup(*dir->base, name)));
  if (!found || !found->is_directory()) return std::optional<Inode>();
  return std::optional(found->inode);
}

Result<Attributes> OverlayFs::shown_upper(Inode parent, std::string_view name, Attributes found) {
  Inode top = found.inode;
  found.inode = number_of(top);
  Copy* copy = find_copy(found.inode);
  if (!found.is_directory()) {
    if (copy) found.nlink += copy->hidden_names;
    return found;
  }
  auto before = dirs_.find(found.inode);
  bool has_moved = before != dirs_.end() && (before->second.parent != parent || before->second.name != name);
  if (has_moved) WARREN_TRY(check_one_name(upper(), top, path_of(parent, name)));
  if (is_within(parent, found.inode)) return has_two_names(path_of(parent, name));
  std::optional<Inode> through;
  if (!opaque_.contains(top)) {
    auto known = dirs_.find(found.inode);
    bool is_elsewhere = copy && copy->is_noted && copy->base_path != base_path_of(parent, name);
    bool is_known = is_elsewhere && known != dirs_.end() && known->second.base;
    if (is_known && base_.get_attributes(*known->second.base).ok()) through = known->second.base;
    else through = WARREN_TRY(find_base_dir(parent, name, copy));
  }
  if (through && !copy && !copies_.contains(*through)) {
    // Made by another program, or before the base had it: it merges with the directory of the same path.
    Inode number = show_as(top, *through);
    copies_[number] = {.upper = top,
                       .base_path = base_path_of(parent, name),
                       .seen = {},
                       .hidden_names = 0,
                       .ranges = std::vector<ByteRange>(),
                       .is_noted = false};
    numbers_[top] = number;
    found.inode = number;
  }
  know_dir(found.inode, parent, name, through);
  found.nlink = WARREN_TRY(count_links(found.inode, found));
  return found;
}

// Whether the base has the node of a copy under another name by now, because the host has moved it. The copy stays
// where the agent has it. Not if it is a hard link: then all names lead to the copy.
bool OverlayFs::has_moved_from_copy(Inode parent, std::string_view name, const Attributes& found) {
  Copy* copy = find_copy(number_of_base(found.inode));
  if (!copy || !copy->is_noted || !copy->seen) return false;
  if (!found.is_directory() && is_gone_or_nameless(copy->upper)) return false;
  if (copy->seen->inode != found.inode) return true;  // the copy follows another node since
  bool may_be_link = !found.is_directory() && (copy->hidden_names > 0 || found.nlink > 1);
  return !may_be_link && copy->base_path != base_path_of(parent, name);
}

bool OverlayFs::is_gone_or_nameless(Inode upper_node) {
  Result<Attributes> found = upper().get_attributes(upper_node);
  return !found.ok() || found->nlink == 0;
}

// The base's node with another number than the copy. kBusy on filesystems without generations, where it has no other.
Result<Attributes> OverlayFs::look_up_apart(Inode parent, std::string_view name, const Attributes& found) {
  base_.reserve_number(found.inode, found.generation + 2);  // of no node: the lowest bit is the kind of generation
  Attributes apart = WARREN_TRY(base_.lookup(*dirs_.at(parent).base, name));
  if (apart.inode != found.inode) {
    substituted_.emplace(apart.inode, found.inode);
    return apart;
  }
  return Error(Code::kBusy, fmt::format("{} was moved in the base, and the agent has a copy of it at its old name",
                                        quote_path(path_of(parent, name))));
}

// What to record of the base's node, if that is no origin: those who read the row later have no substitute for it.
Attributes OverlayFs::with_own_number(Attributes found) const {
  auto own = substituted_.find(found.inode);
  if (own != substituted_.end()) found.inode = own->second;
  return found;
}

Result<Attributes> OverlayFs::shown_base(Inode parent, std::string_view name, Attributes found) {
  if (has_moved_from_copy(parent, name, found)) found = WARREN_TRY(look_up_apart(parent, name, found));
  if (!found.is_directory()) found.inode = number_to_show(found.inode);  // another name of a copy
  removed_.erase(found.inode);
  forget_host(found);
  if (found.is_directory()) {
    if (is_within(parent, found.inode)) {
      return Error(Code::kUnsupported,
                   fmt::format("{} is a directory above it, mounted again", quote_path(path_of(parent, name))));
    }
    know_dir(found.inode, parent, name, found.inode);
    found.nlink = WARREN_TRY(count_links(found.inode, found));
    return found;
  }
  std::vector<Place>& places = places_[found.inode];
  Place place{parent, std::string(name)};
  if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(std::move(place));
  View where = WARREN_TRY(view(found.inode));
  if (where.upper) {
    Attributes shown = WARREN_TRY(attributes_of(where));
    if (shown.nlink > 0) return shown;
    give_number_back(found.inode);
  }
  without_lost_names(found);
  return found;
}

Result<std::optional<Attributes>> OverlayFs::find_in_upper(Inode parent, std::string_view name) {
  if (parent == kRootInode) return unless_missing(upper().lookup(kRootInode, name));
  if (!is_base_number(parent)) return unless_missing(upper().lookup(parent, name));
  Copy* copy = find_copy(parent);
  if (!copy) return std::optional<Attributes>();
  return unless_missing(upper().lookup(copy->upper, name));
}

// Ignores whiteouts.
Result<std::optional<Attributes>> OverlayFs::find_in_base(const Dir& dir, std::string_view name) {
  if (!dir.base) return std::optional<Attributes>();
  return unless_gone(base_.lookup(*dir.base, name));
}

// What must not show once the upper layer's node has lost the name: the base's node, or what the agent saw there and
// the base no longer has. It may be copied from an older version again (changes/pinned/frozen_tree.h), or the base gets
// it back.
Result<std::optional<Attributes>> OverlayFs::find_to_hide(Inode parent, std::string_view name,
                                                          const std::optional<Attributes>& own) {
  std::optional<Attributes> below = WARREN_TRY(find_in_base(dirs_.at(parent), name));
  if (below || !own) return below;
  std::string place = base_path_of(parent, name);
  std::optional<Cover> cover = WARREN_TRY(upper_.find_cover(place));
  std::optional<Attributes> seen = cover ? cover->seen : std::nullopt;
  if (seen && !seen->is_directory()) seen->nlink = 1;  // no other name of the base leads to it
  Inode number = number_of(own->inode);
  if (seen || !own->is_directory() || shows_another(number, place)) return seen;
  // A directory stands for the names that were removed in it.
  std::vector<std::string> gone = WARREN_TRY(upper_.list_whiteouts_in(path_of(parent, name)));
  if (gone.empty()) return std::optional<Attributes>();
  Copy* copy = find_copy(number);
  return copy && copy->seen ? copy->seen : own;
}

// The same for a name that the agent removes or moves away. A file of the base that it has changed or replaced may be
// missing there only for now, because the host is on another branch: the agent's removal holds when it is back.
Result<std::optional<Attributes>> OverlayFs::find_to_keep_hidden(Inode parent, std::string_view name,
                                                                 const std::optional<Attributes>& own) {
  std::optional<Attributes> below = WARREN_TRY(find_to_hide(parent, name, own));
  if (below) return below;
  Copy* copy = own && !own->is_directory() ? find_copy(number_of(own->inode)) : nullptr;
  bool is_of_base = copy != nullptr && copy->base_path == base_path_of(parent, name) && copy->seen;
  if (!is_of_base || copy->seen->is_directory()) return below;
  std::optional<Attributes> seen = copy->seen;
  seen->nlink = 1;  // nothing else in the base is known to be that node
  return seen;
}

Result<std::optional<Attributes>> OverlayFs::find_in(Inode parent, std::string_view name) {
  Dir* dir = WARREN_TRY(enter(parent));
  std::optional<Attributes> top = WARREN_TRY(find_in_upper(parent, name));
  if (top) return std::optional(WARREN_TRY(shown_upper(parent, name, *top)));
  if (!dir->base) return std::optional<Attributes>();
  auto* whiteouts = WARREN_TRY(whiteouts_of(parent, *dir));
  if (whiteouts->contains(name)) return std::optional<Attributes>();
  std::optional<Attributes> below = WARREN_TRY(find_in_base(*dir, name));
  if (!below) return std::optional<Attributes>();
  return std::optional(WARREN_TRY(shown_base(parent, name, *below)));
}

Result<Attributes> OverlayFs::lookup_in(Inode parent, std::string_view name) {
  std::optional<Attributes> found = WARREN_TRY(find_in(parent, name));
  if (!found) return no_entry(name);
  // The base's directory shows again, because its removal was discarded. It has the number of the removed one.
  if (dead_dirs_.contains(found->inode))
    return Error(Code::kBusy, fmt::format("{} was removed, and programs still use what was removed", quote(name)));
  return *found;
}

Result<Attributes> OverlayFs::lookup(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  Scope scope = WARREN_TRY(read_scope());
  WARREN_TRY(enter_to_change(parent));
  return lookup_in(parent, name);
}

// A directory in both layers has no stored link count; it is counted once, and again when the base's directory changes.
Result<std::uint32_t> OverlayFs::count_links(Inode number, const Attributes& own) {
  if (removed_.contains(number)) return std::uint32_t{0};
  auto known = dirs_.find(number);
  if (known == dirs_.end() || !known->second.base) return own.nlink;
  Dir& dir = known->second;
  bool is_in_upper = number == kRootInode ? root_is_copied_ : copies_.contains(number);
  if (!is_in_upper && number != kRootInode) return own.nlink;
  Result<Attributes> below = base_.get_attributes(*dir.base);
  // On most filesystems a link count of two means no subdirectories, so all of them are ours.
  if (below.ok() && below->nlink == 2 && is_in_upper) return own.nlink;
  Timestamp changed = below.ok() ? below->mtime : Timestamp{};
  if (!dir.subdirectories || dir.counted_at != changed) {
    std::vector<DirEntry> entries = WARREN_TRY(list_merged(number));
    dir.subdirectories = static_cast<std::uint32_t>(
        std::count_if(entries.begin(), entries.end(), [](const DirEntry& entry) { return S_ISDIR(entry.type); }));
    dir.counted_at = changed;
  }
  return 2 + *dir.subdirectories;
}

// All visible entries, by name.
Result<std::vector<DirEntry>> OverlayFs::list_merged(Inode number) {
  Dir* dir = WARREN_TRY(enter(number));
  std::map<std::string, DirEntry> merged;
  if (dir->base) {
    auto* whiteouts = WARREN_TRY(whiteouts_of(number, *dir));
    auto below = WARREN_TRY(unless_gone(list_dir(base_, *dir->base, DirDetail::kTypes)));
    for (DirEntry& entry : below.value_or(std::vector<DirEntry>())) {
      if (!whiteouts->contains(entry.name)) merged.emplace(entry.name, std::move(entry));
    }
  }
  View where = WARREN_TRY(view(number));
  if (number == kRootInode) where.upper = kRootInode;
  if (where.upper) {
    std::vector<DirEntry> top = WARREN_TRY(list_dir(upper(), *where.upper, DirDetail::kTypes));
    for (DirEntry& entry : top) {
      entry.inode = number_of(entry.inode);
      merged.insert_or_assign(entry.name, entry);
    }
  }
  std::vector<DirEntry> entries;
  entries.reserve(merged.size());
  for (auto& [name, entry] : merged) entries.push_back(std::move(entry));
  return entries;
}

Result<bool> OverlayFs::is_empty(Inode number) {
  Dir* dir = WARREN_TRY(enter(number));
  View where = WARREN_TRY(view(number));
  if (number == kRootInode) where.upper = kRootInode;
  if (where.upper) {
    std::unique_ptr<DirStream> own = WARREN_TRY(upper().open_dir(*where.upper));
    std::vector<DirEntry> first = WARREN_TRY(own->read(0, 1, DirDetail::kNames));
    if (!first.empty()) return false;
  }
  if (!dir->base) return true;
  auto* whiteouts = WARREN_TRY(whiteouts_of(number, *dir));
  auto below = WARREN_TRY(unless_gone(list_names(base_, *dir->base)));
  if (!below) return true;
  return std::all_of(below->begin(), below->end(), [&](const std::string& name) { return whiteouts->contains(name); });
}

Result<Attributes> OverlayFs::make(Inode parent, std::string_view name, const Maker& maker) {
  WARREN_TRY(check_name(name));
  return change<Attributes>([&]() -> Result<Attributes> {
    WARREN_TRY(enter_to_change(parent));
    if (WARREN_TRY(find_in(parent, name))) return Error(Code::kExists, fmt::format("{} exists already", quote(name)));
    Inode top = WARREN_TRY(upper_dir(parent));
    Dir& dir = dirs_.at(parent);
    std::optional<Attributes> below = WARREN_TRY(find_in_base(dir, name));
    auto* whiteouts = WARREN_TRY(whiteouts_of(parent, dir));
    bool has_seen = !WARREN_TRY(is_unseen(parent, name, std::nullopt, below));
    std::optional<std::string> replaced = WARREN_TRY(find_replaced(std::nullopt, has_seen ? below : std::nullopt));
    if (replaced) WARREN_TRY(upper_.reserve(replaced->size()));
    std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
    WARREN_TRY(note_cover(parent, name, std::nullopt, below));
    Attributes made = WARREN_TRY(maker(top));
    bool is_new_file = made.is_file() && made.nlink == 1;  // not another name of a node that has its own merge base
    if (replaced && is_new_file) WARREN_TRY(upper_.keep_ancestor(made.inode, as_bytes(*replaced)));
    if (whiteouts->contains(name)) WARREN_TRY(upper_.cover_whiteout(path_of(parent, name)));
    bool hides = made.is_directory() && ((below && below->is_directory()) || is_removed_meanwhile(parent, name));
    if (hides) WARREN_TRY(upper_.put_origin({.upper = made.inode, .base_path = "", .seen = {}, .hidden_names = 0}));
    WARREN_TRY(unit->commit());
    end_whiteout(parent, name);
    if (hides) opaque_.insert(made.inode);
    if (made.is_directory()) {
      know_dir(made.inode, parent, name, std::nullopt);
      if (dir.subdirectories) ++*dir.subdirectories;
    }
    return made;
  });
}

Result<Attributes> OverlayFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  WARREN_TRY(check_name(name));
  std::uint32_t type = (node.mode & S_IFMT) == 0 ? std::uint32_t{S_IFREG} : node.mode & S_IFMT;
  if (!is_makeable(type)) return Error(Code::kInvalid, fmt::format("a node of type {:o} cannot be made", type));
  return make(parent, name, [&](Inode top) { return upper().make_node(top, name, node); });
}

Result<Attributes> OverlayFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  return make(parent, name, [&](Inode top) { return upper().make_dir(top, name, node); });
}

Result<Attributes> OverlayFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_link_target(target));
  return make(parent, name, [&](Inode top) { return upper().make_symlink(top, name, target, owner); });
}

Result<Attributes> OverlayFs::create(Inode parent, std::string_view name, const NewNode& node) {
  NewNode regular = node;
  regular.mode = S_IFREG | (node.mode & kPermissions);
  // One change: it must not be removed between creation and retaining.
  return change<Attributes>([&]() -> Result<Attributes> {
    Attributes made = WARREN_TRY(make_node(parent, name, regular));
    WARREN_TRY(retain(made.inode));
    return made;
  });
}

Result<Attributes> OverlayFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  WARREN_TRY(check_name(new_name));
  return change<Attributes>([&]() -> Result<Attributes> {
    WARREN_TRY(enter_to_change(new_parent));
    View where = WARREN_TRY(view(node));
    Attributes now = WARREN_TRY(attributes_of(where));
    if (now.is_directory()) return Error(Code::kNotPermitted, "a directory has only one name");
    if (now.nlink == 0) return Error(Code::kNotFound, "it has no name any more");
    if (WARREN_TRY(find_in(new_parent, new_name))) {
      return Error(Code::kExists, fmt::format("{} exists already", quote(new_name)));
    }
    Inode top = WARREN_TRY(node_for_change(node, 0, 0, UINT64_MAX));
    Attributes before = WARREN_TRY(upper().get_attributes(top));
    if (before.nlink >= limits::kLinks) return Error(Code::kTooManyLinks, "it has as many names as a file can have");
    Attributes made = WARREN_TRY(make(new_parent, new_name, [&](Inode parent) -> Result<Attributes> {
      Attributes linked = WARREN_TRY(upper().link(top, parent, new_name));
      if (before.nlink == 0) WARREN_TRY(upper_.let_go(top));  // it has a name again
      return linked;
    }));
    made.inode = node;
    if (Copy* copy = find_copy(node)) made.nlink += copy->hidden_names;
    return made;
  });
}

Status OverlayFs::unlink(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  return change([&]() -> Status {
    WARREN_TRY(enter_to_change(parent));
    Attributes entry = WARREN_TRY(lookup_in(parent, name));
    if (entry.is_directory()) return Error(Code::kIsDirectory, fmt::format("{} is a directory", quote(name)));
    return remove(parent, name, entry);
  });
}

Status OverlayFs::remove_dir(Inode parent, std::string_view name) {
  WARREN_TRY(check_name(name));
  return change([&]() -> Status {
    WARREN_TRY(enter_to_change(parent));
    Attributes entry = WARREN_TRY(lookup_in(parent, name));
    if (!entry.is_directory()) return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote(name)));
    if (!WARREN_TRY(is_empty(entry.inode))) return Error(Code::kNotEmpty, fmt::format("{} is not empty", quote(name)));
    return remove(parent, name, entry);
  });
}

// Removes one name, from either layer.
Status OverlayFs::remove(Inode parent, std::string_view name, const Attributes& entry) {
  Inode top = WARREN_TRY(upper_dir(parent));
  Dir& dir = dirs_.at(parent);
  std::optional<Attributes> own = WARREN_TRY(find_in_upper(parent, name));
  std::optional<Attributes> below = WARREN_TRY(find_to_keep_hidden(parent, name, own));
  if (below && WARREN_TRY(whiteouts_of(parent, dir))->contains(name)) below.reset();
  std::optional<Attributes> seen;
  if (below && own) seen = WARREN_TRY(find_seen(parent, name, own));
  std::string path = path_of(parent, name);
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  bool is_new_file = own && own->is_file() && find_copy(entry.inode) == nullptr;
  if (below) WARREN_TRY(note_cover(parent, name, own, below));
  WARREN_TRY(remove_own(top, name, entry, own));
  if (!below) WARREN_TRY(end_cover(parent, name));
  // What it replaced. The base may have lost that meanwhile.
  if (is_new_file && (below || own->nlink <= 1)) WARREN_TRY(upper_.remove_origin(own->inode));
  std::string base_path = base_path_of(parent, name);
  if (below) WARREN_TRY(upper_.add_whiteout(top, path, with_own_number(seen.value_or(*below)), base_path));
  if (entry.is_directory() && (!below || shows_another(entry.inode, base_path))) {
    WARREN_TRY(upper_.remove_whiteouts_below(path));  // they are about what it showed
  }
  Attributes changed = WARREN_TRY(upper().get_attributes(top));
  WARREN_TRY(unit->commit());
  if (below && !below->is_directory() && below->nlink > 1) {
    base_.reserve_number(below->inode, below->generation);
    lose_name(below->inode, base_path, changed.mtime);
  }
  if (own && own->nlink <= 1) applied_.erase(own->inode);
  record_removal(parent, name, entry, own, below, changed.mtime);
  if (!below) hide_while_applying(parent, name);
  return Ok{};
}

// Whether a directory was moved to its place, and shows a directory of the base from elsewhere.
bool OverlayFs::shows_another(Inode dir, std::string_view base_path) const {
  auto copy = copies_.find(dir);
  return copy != copies_.end() && copy->second.base_path != base_path;
}

// The upper layer's part of a removal: the name, or the record that it existed.
Status OverlayFs::remove_own(Inode upper_parent, std::string_view name, const Attributes& entry,
                             const std::optional<Attributes>& own) {
  Copy* copy = find_copy(entry.inode);
  if (!own) {
    WARREN_TRY(upper().set_attributes(
        upper_parent, {.mode = {}, .uid = {}, .gid = {}, .size = {}, .atime = {}, .mtime = SetTime::now()}));
    if (!copy || entry.is_directory()) return Ok{};
    // Another hard link of a copy.
    copy->hidden_names -= std::min(copy->hidden_names, 1U);
    WARREN_TRY(upper_.put_origin({copy->upper, copy->base_path, copy->seen, copy->hidden_names}));
    Attributes now = WARREN_TRY(upper().get_attributes(copy->upper));
    if (copy->hidden_names == 0 && now.nlink == 0) {
      WARREN_TRY(upper_.let_go(copy->upper));
      return remove_origin_of_removed(entry.inode, copy->upper);
    }
    WARREN_TRY(upper().set_attributes(copy->upper,
                                      {.mode = now.mode, .uid = {}, .gid = {}, .size = {}, .atime = {}, .mtime = {}}));
    return Ok{};
  }
  if (own->is_directory()) {
    if (copy && copy->is_noted) WARREN_TRY(upper_.remove_origin(own->inode));
    if (opaque_.contains(own->inode)) WARREN_TRY(upper_.remove_origin(own->inode));
    return upper().remove_dir(upper_parent, name);
  }
  bool is_last = own->nlink <= 1;
  if (copy && is_last && copy->hidden_names > 0) {
    WARREN_TRY(upper().retain(own->inode));
    WARREN_TRY(upper().unlink(upper_parent, name));
    WARREN_TRY(upper_.keep_nameless(own->inode));
    upper().forget(own->inode, 1);
    return Ok{};
  }
  WARREN_TRY(upper().unlink(upper_parent, name));
  return copy && is_last ? remove_origin_of_removed(entry.inode, own->inode) : Status(Ok{});
}

// After a copy's last name: unless somebody has it open, who removes this row later.
Status OverlayFs::remove_origin_of_removed(Inode number, Inode upper_node) {
  if (retained_.contains(number) || !is_gone_from_upper(upper_node)) return Ok{};
  return upper_.remove_origin(upper_node);
}

void OverlayFs::record_removal(Inode parent, std::string_view name, const Attributes& entry,
                               const std::optional<Attributes>& own, const std::optional<Attributes>& below,
                               Timestamp at) {
  Dir& dir = dirs_.at(parent);
  bool is_base = is_base_number(entry.inode);
  Removed removed{.at = at, .last = Place{parent, std::string(name)}};
  if (below && dir.whiteouts) dir.whiteouts->insert(std::string(name));
  if (entry.is_directory()) {
    if (dir.subdirectories && *dir.subdirectories > 0) --*dir.subdirectories;
    if (own && !retained_.contains(entry.inode)) {
      copies_.erase(entry.inode);
      numbers_.erase(own->inode);
      opaque_.erase(own->inode);
    }
    removed_.emplace(entry.inode, std::move(removed));
    if (retained_.contains(entry.inode)) dead_dirs_.insert(entry.inode);
    auto known = dirs_.find(entry.inode);
    if (known == dirs_.end()) return;
    know_dir(entry.inode, known->second.parent, known->second.name, std::nullopt);
    if (!retained_.contains(entry.inode)) dirs_.erase(entry.inode);
    return;
  }
  if (!is_base) return;
  auto places = places_.find(entry.inode);
  if (places != places_.end()) std::erase(places->second, Place{parent, std::string(name)});
  Copy* copy = find_copy(entry.inode);
  bool is_last = entry.nlink <= 1;
  if (!is_last) return;
  if (!copy) {
    removed_.emplace(entry.inode, std::move(removed));
  } else if (retained_.contains(entry.inode)) {
    nameless_[entry.inode] = std::move(removed.last);
  } else {
    numbers_.erase(copy->upper);
    copies_.erase(entry.inode);
    removed_.emplace(entry.inode, std::move(removed));
  }
}

}  // namespace warren
