// The part of OverlayFs that copies from the base. No step changes what the overlay shows.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/overlay/overlay_change.h"

namespace warren {
namespace {

// Content is copied in parts aligned to this size: a small write in a large file costs that much, and a file written in
// many places keeps a short list of parts.
constexpr std::uint64_t kPart = std::uint64_t{64} << 10;
constexpr std::uint64_t kStep = std::uint64_t{128} << 10;  // one read and one write

}  // namespace

std::vector<ByteRange> OverlayFs::without(const std::vector<ByteRange>& ranges, ByteRange gone) {
  std::vector<ByteRange> left;
  for (const ByteRange& range : ranges) {
    if (range.begin < gone.begin) left.push_back({range.begin, std::min(range.end, gone.begin)});
    if (range.end > gone.end) left.push_back({std::max(range.begin, gone.end), range.end});
  }
  return left;
}

Status OverlayFs::copy_root() {
  Attributes as = WARREN_TRY(base_.get_attributes(kRootInode));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(copy_xattrs(kRootInode, kRootInode, as));
  WARREN_TRY(upper_.put_origin({.upper = kRootInode, .base_path = "/", .seen = as, .hidden_names = 0}));
  WARREN_TRY(unit->commit());
  if (retained_.contains(kRootInode)) WARREN_TRY(upper().retain(kRootInode));
  root_is_copied_ = true;
  return Ok{};
}

Result<Inode> OverlayFs::upper_dir(Inode dir) {
  if (dir == kRootInode) {
    if (!root_is_copied_) WARREN_TRY(copy_root());
    return kRootInode;
  }
  if (!is_base_number(dir)) return dir;
  if (Copy* copy = find_copy(dir)) return copy->upper;
  return copy_dir(dir);
}

Result<Inode> OverlayFs::copy_dir(Inode dir) {
  auto known = dirs_.find(dir);
  if (known == dirs_.end()) return Error(Code::kStale, fmt::format("directory {} was not looked up", dir.value));
  Inode parent = WARREN_TRY(upper_dir(known->second.parent));
  return make_copy({dir, std::nullopt, dir}, parent, known->second.name, base_path_of(dir), 0);
}

Status OverlayFs::copy_xattrs(Inode base, Inode upper_node, const Attributes& as) {
  std::vector<std::string> names = WARREN_TRY(base_.list_xattrs(base));
  for (const std::string& name : names) {
    if (name == kExpiryXattr) continue;  // copies do not expire
    std::string value = WARREN_TRY(base_.get_xattr(base, name));
    WARREN_TRY(upper().set_xattr(upper_node, name, as_bytes(value), XattrMode::kAny));
  }
  return upper_.restore(upper_node, as);
}

Result<Inode> OverlayFs::make_copy(const View& view, Inode parent, std::string_view name, const std::string& base_path,
                                   std::uint32_t hidden_names) {
  Attributes as = WARREN_TRY(base_.get_attributes(view.number));
  std::string target;
  if (as.is_symlink()) target = WARREN_TRY(base_.read_link(view.number));
  WARREN_TRY(upper_.reserve(as.is_file() ? std::min<std::uint64_t>(as.size, copy_whole_bytes_) : 0));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  Inode made = WARREN_TRY(upper_.adopt(parent, name, as, target));
  Attributes shown = as;
  without_lost_names(shown);
  WARREN_TRY(copy_xattrs(view.number, made, shown));
  Copy copy{.upper = made,
            .base_path = base_path,
            .seen = as,
            .hidden_names = hidden_names,
            .ranges = std::vector<ByteRange>(),
            .is_noted = true};
  if (as.is_file() && as.size > 0) copy.ranges->push_back({0, as.size});
  WARREN_TRY(upper_.put_origin({.upper = made, .base_path = base_path, .seen = as, .hidden_names = hidden_names}));
  if (!copy.ranges->empty()) WARREN_TRY(upper_.set_base_ranges(made, *copy.ranges));
  if (retained_.contains(view.number)) WARREN_TRY(upper().retain(made));
  WARREN_TRY(unit->commit());
  base_.reserve_number(as.inode, as.generation);
  numbers_[made] = view.number;
  copies_[view.number] = std::move(copy);
  return made;
}

// The node is open but has no name that we know, so its copy has none either. A file with several names in the base may
// have others there.
Result<Inode> OverlayFs::make_nameless_copy(const View& view) {
  Inode root = WARREN_TRY(upper_dir(kRootInode));
  Attributes root_before = WARREN_TRY(upper().get_attributes(root));
  Attributes before = WARREN_TRY(attributes_of(view));
  Attributes in_layer = WARREN_TRY(layer_attributes(view));
  bool has_others = in_layer.nlink > 1 && before.nlink > 0;
  std::string name = fmt::format(".warren-nameless-{}", view.number.value);
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  Inode made = WARREN_TRY(make_copy(view, root, name, "/" + name, has_others ? before.nlink : 0));
  WARREN_TRY(upper().unlink(root, name));
  if (has_others) WARREN_TRY(upper_.keep_nameless(made));
  WARREN_TRY(upper_.restore(root, root_before));
  WARREN_TRY(upper_.restore(made, before));
  WARREN_TRY(unit->commit());
  if (has_others) return made;
  auto gone = removed_.find(view.number);
  nameless_[view.number] = gone == removed_.end() ? std::nullopt : gone->second.last;
  return made;
}

// A name of a node of the base. Those that another process has removed or replaced since are forgotten.
Result<std::optional<OverlayFs::Place>> OverlayFs::find_place(Inode number) {
  auto places = places_.find(number);
  while (places != places_.end() && !places->second.empty()) {
    const Place& place = places->second.back();
    auto dir = dirs_.find(place.parent);
    if (dir == dirs_.end()) return std::optional(place);
    bool is_hidden = WARREN_TRY(whiteouts_of(place.parent, dir->second))
    ->contains(place.name);
    if (!is_hidden) is_hidden = WARREN_TRY(find_in_upper(place.parent, place.name))
    .has_value();
    if (!is_hidden) return std::optional(place);
    places->second.pop_back();
  }
  return std::optional<Place>();
}

Result<Inode> OverlayFs::copy_up(const View& view, std::uint64_t content_max) {
  if (view.number == kRootInode || dirs_.contains(view.number)) return upper_dir(view.number);
  if (Copy* copy = find_copy(view.number)) return copy->upper;
  std::optional<Place> place = WARREN_TRY(find_place(view.number));
  if (!place) {
    if (!retained_.contains(view.number)) return Error(Code::kStale, fmt::format("node {} is gone", view.number.value));
    WARREN_TRY(make_nameless_copy(view));
  } else {
    Attributes shown = WARREN_TRY(attributes_of(view));
    Inode parent = WARREN_TRY(upper_dir(place->parent));
    std::string path = base_path_of(place->parent, place->name);
    WARREN_TRY(make_copy(view, parent, place->name, path, shown.nlink > 0 ? shown.nlink - 1 : 0));
  }
  Copy& copy = copies_.at(view.number);
  if (!copy.seen->is_file()) return copy.upper;
  if (copy.seen->size > copy_whole_bytes_) {
    hold(*copy.seen);
    return copy.upper;
  }
  WARREN_TRY(keep_ancestor(view.number, copy));
  WARREN_TRY(fetch(copy, 0, std::min(copy.seen->size, content_max)));
  return copy.upper;
}

// Also for a file whose first change truncates it: that is how most programs rewrite a file.
Status OverlayFs::keep_ancestor(Inode number, const Copy& copy) {
  std::optional<std::string> content = WARREN_TRY(read_ancestor(number, *copy.seen));
  if (!content) return Ok{};
  WARREN_TRY(upper_.reserve(content->size()));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(upper_.keep_ancestor(copy.upper, as_bytes(*content)));
  return unit->commit();
}

// The content of a file of the base, if it is kept for merging: small, and text.
Result<std::optional<std::string>> OverlayFs::read_ancestor(Inode number, const Attributes& file) {
  std::optional<std::string> none;
  if (!file.is_file() || file.size > limits::kAncestorBytes) return none;
  std::string content(static_cast<std::size_t>(file.size), '\0');
  content.resize(WARREN_TRY(base_.read(number, 0, as_mutable_bytes(content))));
  if (is_binary(content)) return none;
  return std::optional(std::move(content));
}

// What a new file replaces, by its creation or by a rename: the merge base of its changes. `own` is the node of the
// upper layer that had the name so far; what the agent first saw there counts. A file that cannot be read has none.
Result<std::optional<std::string>> OverlayFs::find_replaced(const std::optional<Attributes>& own,
                                                            const std::optional<Attributes>& in_base) {
  if (own && own->is_file()) {
    std::optional<std::string> first = WARREN_TRY(upper_.find_ancestor(own->inode));
    if (first) return first;
  }
  if (!in_base) return std::optional<std::string>();
  Result<std::optional<std::string>> content = read_ancestor(in_base->inode, *in_base);
  return content.ok() ? std::move(content) : Result<std::optional<std::string>>(std::optional<std::string>());
}

// What the agent saw of the base's node under a name, if that may be older than what the base has now: `own`, the node
// of the upper layer with that name, is a copy of it, or was applied to it; or the name was removed. The row of a
// whiteout and of a node that takes the name over has this, so that newer work in the base is a conflict.
Result<std::optional<Attributes>> OverlayFs::find_seen(Inode parent, std::string_view name,
                                                       const std::optional<Attributes>& own) {
  std::optional<Attributes> none;
  if (own && own->is_directory()) return none;
  if (own) {
    std::optional<OwnRecord> record = WARREN_TRY(find_own_record(parent, name, *own));
    if (record) return record->seen;
  }
  std::optional<Cover> cover = WARREN_TRY(upper_.find_cover(base_path_of(parent, name)));
  if (cover) return cover->seen;
  auto* whiteouts = WARREN_TRY(whiteouts_of(parent, dirs_.at(parent)));
  if (!whiteouts->contains(name)) return none;
  return upper_.find_removed(path_of(parent, name));
}

Result<std::optional<OverlayFs::OwnRecord>> OverlayFs::find_own_record(Inode parent, std::string_view name,
                                                                       const Attributes& own) {
  std::optional<OwnRecord> none;
  if (auto applied = applied_.find(own.inode); applied != applied_.end())
    return std::optional(OwnRecord{applied->second});
  Copy* copy = find_copy(number_of(own.inode));
  if (!copy || opaque_.contains(own.inode)) return none;
  bool is_from_here = copy->base_path == base_path_of(parent, name) ||
                      !WARREN_TRY(find_in_tree(base_, copy->base_path));  // its rename was made in the base, too
  return is_from_here ? std::optional(OwnRecord{copy->seen}) : none;
}

Status OverlayFs::note_cover(Inode parent, std::string_view name, const std::optional<Attributes>& own,
                             const std::optional<Attributes>& in_base) {
  Dir& dir = dirs_.at(parent);
  if (!dir.base) return Ok{};  // nothing of the base shows there, which is noted of a directory above
  std::string place = base_path_of(parent, name);
  std::optional<Attributes> seen = in_base;
  if (own) {
    std::optional<OwnRecord> record = WARREN_TRY(find_own_record(parent, name, *own));
    if (!record) return keep_cover_above(place);  // covered already
    if (record->seen) seen = record->seen;
  } else if (WARREN_TRY(whiteouts_of(parent, dir))->contains(name)) {
    bool is_noted = WARREN_TRY(upper_.find_cover(place))
    .has_value();
    if (is_noted) return Ok{};
    seen = WARREN_TRY(upper_.find_removed(path_of(parent, name)));
    if (!seen) return Ok{};  // by another program
  }
  if (seen) seen = with_own_number(*seen);
  Cover cover{.base_path = std::move(place), .seen = std::move(seen), .at = {}};
  bool is_dir = cover.seen && cover.seen->is_directory();
  if (is_dir) cover.at = WARREN_TRY(fold_covers_below(cover.base_path));
  return upper_.put_cover(cover);
}

// A directory that is covered stands for the names below it that the base still has as the agent saw them. Returns the
// time of the first of those that end; no time if there are none.
Result<Timestamp> OverlayFs::fold_covers_below(const std::string& place) {
  Timestamp earliest;
  std::vector<Cover> below = WARREN_TRY(upper_.list_covers_below(place));
  for (const Cover& cover : below) {
    Result<std::optional<Attributes>> now = find_in_tree(base_, cover.base_path);
    if (!now.ok()) continue;
    bool is_known = cover.seen ? *now && is_as_seen(**now, *cover.seen) : !*now;
    if (!is_known) continue;
    WARREN_TRY(upper_.remove_cover(cover.base_path));
    if (earliest == Timestamp{} || cover.at < earliest) earliest = cover.at;
  }
  return earliest;
}

// A node in a new directory got no record of its own. If the base has the directory, too, by now, it gets one: else its
// name would count as free once it is removed.
Status OverlayFs::keep_cover_above(const std::string& place) {
  if (WARREN_TRY(upper_.find_cover(place))) return Ok{};
  for (std::string_view at = split_parent(place).parent; at.size() > 1; at = split_parent(at).parent) {
    std::optional<Cover> above = WARREN_TRY(upper_.find_cover(at));
    if (!above) continue;
    if (above->seen) return Ok{};
    return upper_.put_cover({.base_path = place, .seen = {}, .at = above->at});
  }
  return Ok{};
}

Status OverlayFs::end_cover(Inode parent, std::string_view name) {
  return dirs_.at(parent).base ? upper_.remove_cover(base_path_of(parent, name)) : Status(Ok{});
}

Result<bool> OverlayFs::is_unseen(Inode parent, std::string_view name, const std::optional<Attributes>& own,
                                  const std::optional<Attributes>& in_base) {
  if (!in_base) return false;
  std::optional<OwnRecord> record;
  if (own) record = WARREN_TRY(find_own_record(parent, name, *own));
  if (record) return record->seen && !is_as_seen(*in_base, *record->seen);
  bool is_covered = own || WARREN_TRY(whiteouts_of(parent, dirs_.at(parent)))
  ->contains(name);
  if (!is_covered) return false;
  std::optional<Cover> cover = WARREN_TRY(upper_.find_cover(base_path_of(parent, name)));
  if (cover) return !cover->seen || !is_as_seen(*in_base, *cover->seen);
  std::optional<Attributes> seen = WARREN_TRY(find_seen(parent, name, own));
  return seen && !is_as_seen(*in_base, *seen);
}

Result<std::vector<ByteRange>*> OverlayFs::ranges_of(Copy& copy) {
  if (!copy.ranges) copy.ranges = WARREN_TRY(upper_.list_base_ranges(copy.upper));
  return &*copy.ranges;
}

// Copies the parts of [begin, end) that are still in the base.
Status OverlayFs::fetch(Copy& copy, std::uint64_t begin, std::uint64_t end) {
  std::vector<ByteRange>* ranges = WARREN_TRY(ranges_of(copy));
  if (ranges->empty() || begin >= end) return Ok{};
  ByteRange wanted{begin / kPart * kPart, (end + kPart - 1) / kPart * kPart};
  std::vector<ByteRange> left = without(*ranges, wanted);
  if (left == *ranges) return Ok{};
  Source from = WARREN_TRY(find_base_of(copy));
  Attributes before = WARREN_TRY(upper().get_attributes(copy.upper));
  WARREN_TRY(upper_.reserve(wanted.end - wanted.begin));
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  std::string part;
  for (const ByteRange& range : *ranges) {
    std::uint64_t stop = std::min(range.end, wanted.end);
    for (std::uint64_t at = std::max(range.begin, wanted.begin); at < stop;) {
      part.resize(static_cast<std::size_t>(std::min(kStep, stop - at)));
      std::size_t got = WARREN_TRY(read_source(from, at, as_mutable_bytes(part)));
      if (got == 0) return base_changed(copy);
      part.resize(got);
      if (part.find_first_not_of('\0') != part.npos) WARREN_TRY(upper().write(copy.upper, at, as_bytes(part)));
      at += got;
    }
  }
  WARREN_TRY(upper_.restore(copy.upper, before));
  WARREN_TRY(upper_.set_base_ranges(copy.upper, left));
  WARREN_TRY(unit->commit());
  set_ranges(copy, std::move(left));
  return Ok{};
}

}  // namespace warren
