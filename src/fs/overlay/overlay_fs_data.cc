// The part of OverlayFs for content and attributes of nodes.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/overlay/overlay_change.h"
#include "fs/overlay/recorded.h"

namespace warren {
namespace {

constexpr std::uint64_t kEverything = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kChmodBits = 07777;

}  // namespace

// The upper layer's node, with [begin, end) of its content copied, so that the range can be changed there. Without a
// range, only the node.
Result<Inode> OverlayFs::node_for_change(Inode node, std::uint64_t begin, std::uint64_t end,
                                         std::uint64_t content_max) {
  {
    Scope scope = WARREN_TRY(read_scope());
    View where = WARREN_TRY(view(node));
    if (where.upper) {
      Copy* copy = find_copy(where.number);
      if (!copy || WARREN_TRY(ranges_of(*copy))->empty() || begin >= end) return *where.upper;
    }
  }
  SideChange copies_up;
  return change<Inode>([&]() -> Result<Inode> {
    View where = WARREN_TRY(view(node));
    if (begin < end) WARREN_TRY(check_content(where));
    Inode found = WARREN_TRY(copy_up(where, content_max));
    if (Copy* copy = find_copy(where.number); copy && begin < end) {
      WARREN_TRY(check_source(*copy, where.number));
      WARREN_TRY(fetch(*copy, begin, end));
    }
    return found;
  });
}

Result<Inode> OverlayFs::file_for_change(Inode node, std::uint64_t begin, std::uint64_t end) {
  {
    Scope scope = WARREN_TRY(read_scope());
    View where = WARREN_TRY(view(node));
    if (!where.upper) WARREN_TRY(check_content(where));
  }
  return node_for_change(node, begin, end, kEverything);
}

// A file of the base is taken over when the host changes it (take_over). What is copied and what is written must not be
// of two versions, so the lock is held in between.
template <class T>
Result<T> OverlayFs::change_content(Inode node, std::uint64_t begin, std::uint64_t end,
                                    const std::function<Result<T>(Inode top)>& body) {
  auto whole = [&]() -> Result<T> {
    Inode top = WARREN_TRY(file_for_change(node, begin, end));
    return body(top);
  };
  bool is_in_base = false;
  {
    Scope scope = WARREN_TRY(read_scope());
    View where = WARREN_TRY(view(node));
    is_in_base = where.base || find_copy(where.number);
  }
  return is_in_base ? change<T>(whole) : whole();
}

Result<Fd> OverlayFs::open_backing(Inode node) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  if (where.upper || !where.base) return Fd();
  return base_.open_backing(*where.base);
}

// The host may have changed the base's file, and the event that makes an untouched copy follow has not come yet.
Result<std::size_t> OverlayFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  Result<std::size_t> got = read_now(node, offset, out);
  if (got.ok() || got.error().code() != Code::kIo) return got;
  if (std::optional<Inode> copy = find_to_follow(node)) take_over_now(*copy);
  return read_now(node, offset, out);  // also if another thread has made it follow meanwhile
}

Result<std::size_t> OverlayFs::read_now(Inode node, std::uint64_t offset, MutableBytes out) {
  std::vector<ByteRange> ranges;
  std::optional<Inode> top;
  Source below;
  {
    Scope scope = WARREN_TRY(read_scope());
    View where = WARREN_TRY(view(node));
    top = where.upper;
    if (!top) below.node = *where.base;
    if (Copy* copy = find_copy(where.number)) {
      ranges = *WARREN_TRY(ranges_of(*copy));
      auto is_wanted = [&](const ByteRange& range) { return range.begin < offset + out.size() && offset < range.end; };
      bool needs_base = std::any_of(ranges.begin(), ranges.end(), is_wanted);
      Result<Source> found = ranges.empty() ? Source() : find_base_of(*copy);
      // What the agent has written itself can be read without the base. An untouched copy is to follow the base.
      if (!found.ok() && (needs_base || is_untouched(*copy))) return std::move(found).error();
      if (found.ok()) below = *std::move(found);
    }
  }
  if (!top) return base_.read(below.node, offset, out);
  std::size_t length = WARREN_TRY(upper().read(*top, offset, out));
  for (const ByteRange& range : ranges) {
    std::uint64_t begin = std::max(range.begin, offset);
    std::uint64_t end = std::min<std::uint64_t>(range.end, offset + length);
    if (begin >= end) continue;
    MutableBytes part = out.subspan(static_cast<std::size_t>(begin - offset), static_cast<std::size_t>(end - begin));
    std::size_t got = WARREN_TRY(read_source(below, begin, part));
    if (got < part.size()) return Error(Code::kIo, "the file has become shorter in the base");
  }
  return length;
}

Status OverlayFs::write(Inode node, std::uint64_t offset, Bytes data) {
  std::uint64_t end =
      data.size() > limits::kFileBytes - std::min(offset, limits::kFileBytes) ? offset : offset + data.size();
  WARREN_TRY(change_content<std::uint64_t>(node, offset, end, [&](Inode top) -> Result<std::uint64_t> {
    WARREN_TRY(upper().write(top, offset, data));
    return offset;
  }));
  return Ok{};
}

Result<std::uint64_t> OverlayFs::append(Inode node, Bytes data) {
  Attributes now = WARREN_TRY(get_attributes(node));
  // The part that contains the end; the rest of it lies beyond the end.
  std::uint64_t begin = now.size == 0 ? 0 : now.size - 1;
  return change_content<std::uint64_t>(node, begin, now.size, [&](Inode top) { return upper().append(top, data); });
}

// No content is copied for either kind: allocating changes none, and what is cleared need not be copied first.
Status OverlayFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  bool clears = mode != AllocateMode::kAllocate && mode != AllocateMode::kKeepSize;
  bool fits = length > 0 && length <= limits::kFileBytes && offset <= limits::kFileBytes - length;
  return change([&]() -> Status {
    Inode top = WARREN_TRY(file_for_change(node, 0, 0));
    if (!clears || !fits) return upper().allocate(top, mode, offset, length);
    return clear_range(node, top, mode, {offset, offset + length});
  });
}

Status OverlayFs::clear_range(Inode node, Inode top, AllocateMode mode, ByteRange gone) {
  node = WARREN_TRY(view(node))
  .number;
  Copy* copy = find_copy(node);
  bool is_whole = !copy || WARREN_TRY(ranges_of(*copy))
  ->empty();
  if (is_whole) return upper().allocate(top, mode, gone.begin, gone.end - gone.begin);
  WARREN_TRY(check_source(*copy, node));
  // The parts that contain the first and the last byte are cleared only in part.
  WARREN_TRY(fetch(*copy, gone.begin, gone.begin + 1));
  WARREN_TRY(fetch(*copy, gone.end - 1, gone.end));
  std::vector<ByteRange> left = without(*copy->ranges, gone);
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(upper().allocate(top, mode, gone.begin, gone.end - gone.begin));
  WARREN_TRY(upper_.set_base_ranges(top, left));
  WARREN_TRY(unit->commit());
  set_ranges(*copy, std::move(left));
  return Ok{};
}

Result<std::uint64_t> OverlayFs::seek_data(Inode node, std::uint64_t offset) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  if (!where.upper) return base_.seek_data(*where.base, offset);
  Result<std::uint64_t> own = upper().seek_data(*where.upper, offset);
  Copy* copy = find_copy(where.number);
  if (!copy || (!own.ok() && own.error().code() != Code::kNoData)) return own;
  std::vector<ByteRange> ranges = *WARREN_TRY(ranges_of(*copy));
  if (ranges.empty()) return own;
  Result<Source> below = find_base_of(*copy);
  bool knows_holes = below.ok() && !below->held;
  std::uint64_t first = own.ok() ? *own : kEverything;
  for (const ByteRange& range : ranges) {
    if (range.end <= offset) continue;
    std::uint64_t from = std::max(offset, range.begin);
    Result<std::uint64_t> at = knows_holes ? base_.seek_data(below->node, from) : from;
    if (!at.ok() && at.error().code() != Code::kNoData) return at;
    if (at.ok() && *at < range.end) first = std::min(first, *at);
  }
  if (first == kEverything) return Error(Code::kNoData, "there is no data from this offset on");
  return first;
}

Result<std::uint64_t> OverlayFs::seek_hole(Inode node, std::uint64_t offset) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  if (!where.upper) return base_.seek_hole(*where.base, offset);
  Copy* copy = find_copy(where.number);
  if (!copy || WARREN_TRY(ranges_of(*copy))->empty()) return upper().seek_hole(*where.upper, offset);
  // Data in the base is a hole in the upper layer, so both must agree.
  Attributes now = WARREN_TRY(upper().get_attributes(*where.upper));
  if (offset >= now.size) return upper().seek_hole(*where.upper, offset);
  Result<Source> below = find_base_of(*copy);
  bool knows_holes = below.ok() && !below->held;
  std::vector<ByteRange> ranges = *copy->ranges;
  for (std::uint64_t at = offset; at < now.size;) {
    auto in = std::find_if(ranges.begin(), ranges.end(),
                           [&](const ByteRange& range) { return range.begin <= at && at < range.end; });
    if (in != ranges.end()) {
      std::uint64_t hole = knows_holes ? WARREN_TRY(base_.seek_hole(below->node, at)) : in->end;
      if (hole < in->end) return hole;
      at = in->end;
      continue;
    }
    std::uint64_t hole = WARREN_TRY(upper().seek_hole(*where.upper, at));
    auto next = std::find_if(ranges.begin(), ranges.end(), [&](const ByteRange& range) { return range.begin >= at; });
    if (next == ranges.end() || hole < next->begin) return hole;
    at = next->begin;
  }
  return now.size;
}

Result<std::uint64_t> OverlayFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                            std::uint64_t length) {
  {
    Scope scope = WARREN_TRY(read_scope());
    View where = WARREN_TRY(view(from));
    WARREN_TRY(check_content(where));
    View target = WARREN_TRY(view(to));
    WARREN_TRY(check_content(target));
  }
  Attributes info = WARREN_TRY(get_attributes(from));
  std::uint64_t available = from_offset < info.size ? std::min(length, info.size - from_offset) : 0;
  std::uint64_t end =
      available > limits::kFileBytes - std::min(to_offset, limits::kFileBytes) ? to_offset : to_offset + available;
  auto copy_in_upper = [&]() -> Result<std::optional<std::uint64_t>> {
    Inode top = WARREN_TRY(file_for_change(to, to_offset, end));
    if (from == to) WARREN_TRY(file_for_change(from, from_offset, from_offset + available));
    View where = WARREN_TRY(view(from));
    Copy* copy = find_copy(where.number);
    bool is_plain = from == to || (where.upper && (!copy || WARREN_TRY(ranges_of(*copy))->empty()));
    if (!is_plain) return std::optional<std::uint64_t>();
    return std::optional(WARREN_TRY(upper().copy_range(*where.upper, from_offset, top, to_offset, length)));
  };
  std::optional<std::uint64_t> copied = WARREN_TRY(change<std::optional<std::uint64_t>>(copy_in_upper));
  if (copied) return *copied;
  std::string part;
  std::uint64_t done = 0;
  while (done < available) {
    part.resize(static_cast<std::size_t>(std::min<std::uint64_t>(limits::kCopyBytes, available - done)));
    std::size_t got = WARREN_TRY(read(from, from_offset + done, as_mutable_bytes(part)));
    if (got == 0) break;
    WARREN_TRY(write(to, to_offset + done, as_bytes(std::string_view(part).substr(0, got))));
    done += got;
  }
  return done;
}

Status OverlayFs::sync(Inode node) {
  std::optional<Inode> top;
  {
    Scope scope = WARREN_TRY(read_scope());
    View where = WARREN_TRY(view(node));
    top = where.upper;
  }
  return upper().sync(top.value_or(kRootInode));
}

// Checked before the first step, which would stay if a later one failed.
Status OverlayFs::check_changes(Inode node, const AttributeChanges& changes) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  if (changes.size) WARREN_TRY(check_content(where));
  else WARREN_TRY(layer_attributes(where));
  if (changes.size && *changes.size > limits::kFileBytes) {
    return Error(Code::kTooLarge, fmt::format("a file has at most {} bytes", limits::kFileBytes));
  }
  for (const std::optional<SetTime>& time : {changes.atime, changes.mtime}) {
    if (time && time->at && (time->at->nanoseconds < 0 || time->at->nanoseconds > 999'999'999)) {
      return Error(Code::kInvalid, fmt::format("{} is not a valid number of nanoseconds", time->at->nanoseconds));
    }
  }
  return Ok{};
}

// Content beyond the new end no longer comes from the base.
Status OverlayFs::cut_ranges(Inode node, std::uint64_t size) {
  node = WARREN_TRY(view(node))
  .number;
  Copy* copy = find_copy(node);
  if (!copy) return Ok{};
  std::vector<ByteRange>* ranges = WARREN_TRY(ranges_of(*copy));
  bool leaves_some = !ranges->empty() && ranges->front().begin < size;
  if (leaves_some) WARREN_TRY(check_source(*copy, node));
  if (ranges->empty() || ranges->back().end <= size) return Ok{};
  WARREN_TRY(fetch(*copy, size == 0 ? 0 : size - 1, size));  // the part that contains the new end
  std::vector<ByteRange> left;
  for (const ByteRange& range : *ranges) {
    if (range.begin < size) left.push_back({range.begin, std::min(range.end, size)});
  }
  AttributeChanges cut;
  cut.size = size;
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(upper().set_attributes(copy->upper, cut));
  WARREN_TRY(upper_.set_base_ranges(copy->upper, left));
  WARREN_TRY(unit->commit());
  set_ranges(*copy, std::move(left));
  return Ok{};
}

// Whether the base has the node, and it has this mode and owner already. Programs that install or copy files set both
// whatever they are: that must not make the file one that the agent has changed. A size is always a change, because
// setting it sets the time.
Result<bool> OverlayFs::changes_nothing(Inode node, const AttributeChanges& changes) {
  if (changes.size || changes.atime || changes.mtime) return false;
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  if (!where.base) return false;
  Attributes now = WARREN_TRY(layer_attributes(where));
  bool is_same_mode = !changes.mode || ((*changes.mode ^ now.mode) & kChmodBits) == 0;
  bool is_same = is_same_mode && changes.uid.value_or(now.owner.uid) == now.owner.uid &&
                 changes.gid.value_or(now.owner.gid) == now.owner.gid;
  if (!is_same || !where.upper) return is_same;
  Copy* copy = find_copy(where.number);
  return copy && copy->seen && is_as_recorded(now, *copy->seen);
}

Result<Attributes> OverlayFs::set_attributes(Inode node, const AttributeChanges& changes) {
  bool any = changes.mode || changes.uid || changes.gid || changes.size || changes.atime || changes.mtime;
  if (!any) return get_attributes(node);
  WARREN_TRY(check_changes(node, changes));
  if (WARREN_TRY(changes_nothing(node, changes))) return get_attributes(node);
  // When a file is truncated, only the remainder is copied.
  std::uint64_t content_max = changes.size.value_or(kEverything);
  auto set = [&]() -> Status {
    Inode top = WARREN_TRY(node_for_change(node, 0, 0, content_max));
    if (changes.size) WARREN_TRY(cut_ranges(node, *changes.size));
    WARREN_TRY(upper().set_attributes(top, changes));
    return Ok{};
  };
  WARREN_TRY(changes.size ? change(set) : set());
  return get_attributes(node);
}

Result<std::string> OverlayFs::get_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  return where.upper ? upper().get_xattr(*where.upper, name) : base_.get_xattr(*where.base, name);
}

Result<std::vector<std::string>> OverlayFs::list_xattrs(Inode node) {
  Scope scope = WARREN_TRY(read_scope());
  View where = WARREN_TRY(view(node));
  return where.upper ? upper().list_xattrs(*where.upper) : base_.list_xattrs(*where.base);
}

Status OverlayFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  WARREN_TRY(check_xattr_name(name));
  if (value.size() > limits::kXattrValueBytes) {
    return Error(Code::kTooLarge, fmt::format("an attribute has at most {} bytes", limits::kXattrValueBytes));
  }
  // Its name may be one of the base's, which would come to light again.
  if (name == kExpiryXattr) return Error(Code::kUnsupported, "a file of an agent with a base cannot expire");
  Inode top = WARREN_TRY(node_for_change(node, 0, 0, kEverything));
  return upper().set_xattr(top, name, value, mode);
}

Status OverlayFs::remove_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check_xattr_name(name));
  {
    Scope scope = WARREN_TRY(read_scope());
    View where = WARREN_TRY(view(node));
    if (!where.upper) WARREN_TRY(base_.get_xattr(*where.base, name));  // nothing to remove, nothing to copy
  }
  Inode top = WARREN_TRY(node_for_change(node, 0, 0, kEverything));
  return upper().remove_xattr(top, name);
}

}  // namespace warren
