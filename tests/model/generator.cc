#include <array>

#include "base/limits.h"
#include "model/operations.h"

namespace warren::testing {
namespace {

struct Weight {
  Call call;
  unsigned weight;
};

constexpr std::array kWeights = {
    Weight{Call::kLookup, 6},      Weight{Call::kMakeNode, 8},      Weight{Call::kMakeDir, 8},
    Weight{Call::kMakeSymlink, 4}, Weight{Call::kCreate, 6},        Weight{Call::kLink, 6},
    Weight{Call::kUnlink, 7},      Weight{Call::kRemoveDir, 5},     Weight{Call::kRename, 14},
    Weight{Call::kList, 3},        Weight{Call::kGetAttributes, 3}, Weight{Call::kSetAttributes, 8},
    Weight{Call::kReadLink, 2},    Weight{Call::kRetain, 4},        Weight{Call::kForget, 7},
    Weight{Call::kOpen, 3},        Weight{Call::kRead, 8},          Weight{Call::kWrite, 14},
    Weight{Call::kAppend, 5},      Weight{Call::kAllocate, 8},      Weight{Call::kSeekData, 4},
    Weight{Call::kSeekHole, 4},    Weight{Call::kCopyRange, 5},     Weight{Call::kSync, 1},
    Weight{Call::kGetXattr, 2},    Weight{Call::kListXattrs, 1},    Weight{Call::kSetXattr, 4},
    Weight{Call::kRemoveXattr, 2}, Weight{Call::kBegin, 3},         Weight{Call::kEnd, 5},
};

constexpr unsigned total_weight() {
  unsigned total = 0;
  for (const Weight& each : kWeights) total += each.weight;
  return total;
}

// The node type that a call usually needs, so that most calls can succeed. 0: any node.
std::uint32_t type_for(Call call) {
  switch (call) {
    case Call::kLookup:
    case Call::kMakeNode:
    case Call::kMakeDir:
    case Call::kMakeSymlink:
    case Call::kCreate:
    case Call::kUnlink:
    case Call::kRemoveDir:
    case Call::kRename:
    case Call::kList: return S_IFDIR;
    case Call::kOpen:
    case Call::kRead:
    case Call::kWrite:
    case Call::kAppend:
    case Call::kAllocate:
    case Call::kSeekData:
    case Call::kSeekHole:
    case Call::kCopyRange: return S_IFREG;
    case Call::kReadLink: return S_IFLNK;
    case Call::kRetain: return S_IFDIR;  // otherwise a retained directory that is removed would be rare
    default: return 0;
  }
}

}  // namespace

Call Generator::pick_call(std::size_t open_units) {
  std::uint64_t at = below(total_weight());
  for (const Weight& each : kWeights) {
    if (at >= each.weight) {
      at -= each.weight;
      continue;
    }
    if (each.call == Call::kBegin && open_units >= 2) return Call::kEnd;
    if (each.call == Call::kEnd && open_units == 0) return Call::kList;
    if (each.call == Call::kSync && open_units > 0) return Call::kList;
    return each.call;
  }
  return Call::kList;
}

std::size_t Generator::pick_node(const std::vector<Known>& known, std::uint32_t type) {
  if (one_in(12)) return below(known.size());
  if (one_in(6)) return pick_held(known, type);
  if (type == S_IFDIR && one_in(3)) return 0;  // often the root, so that names collide
  for (int tries = 0; tries < 30; ++tries) {
    std::size_t at = below(known.size());
    if (type == 0 || known[at].type == type) return at;
  }
  return 0;
}

// A node that may have lost its last name, if there is one of that type.
std::size_t Generator::pick_held(const std::vector<Known>& known, std::uint32_t type) {
  std::size_t start = below(known.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    std::size_t at = (start + i) % known.size();
    if (known[at].held > 0 && (type == 0 || known[at].type == type)) return at;
  }
  return start;
}

// Copies within one file, where the ranges just touch or just overlap.
void Generator::make_ranges_meet(Operation& copy) {
  copy.other = copy.node;
  copy.other_offset = copy.offset + copy.length - 1 + below(3);
  if (one_in(2)) std::swap(copy.offset, copy.other_offset);
}

std::string Generator::pick_name() {
  static const std::array<std::string, 10> kNames = {
      "a", "b", "c", "d", "e", "\xff\xfe", "A\nB", std::string(255, 'n'), "...", "%'\""};
  static const std::array<std::string, 6> kBadNames = {
      "", ".", "..", "a/b", std::string("a\0b", 3), std::string(256, 'n')};
  if (one_in(60)) return kBadNames[below(kBadNames.size())];
  return kNames[below(one_in(3) ? kNames.size() : 5)];
}

std::string Generator::pick_xattr_name() {
  static const std::array<std::string, 4> kNames = {"user.a", "user.b", "\xff", std::string(255, 'x')};
  static const std::array<std::string, 3> kBadNames = {"", std::string("a\0b", 3), std::string(256, 'x')};
  if (one_in(20)) return kBadNames[below(kBadNames.size())];
  return kNames[below(kNames.size())];
}

std::string Generator::pick_target() {
  static const std::array<std::string, 7> kTargets = {
      "a", "../b", "/c/d", "\xff", "", std::string(4096, 't'), std::string("a\0b", 3)};
  return kTargets[below(one_in(10) ? kTargets.size() : 4)];
}

std::uint64_t Generator::pick_offset() {
  static constexpr std::array<std::uint64_t, 8> kEdges = {0, 1, 4095, 4096, 4097, 8191, 8192, 12'288};
  static constexpr std::array<std::uint64_t, 4> kFar = {std::uint64_t{1} << 40, limits::kFileBytes - 1,
                                                        limits::kFileBytes, UINT64_MAX};
  if (one_in(60)) return kFar[below(kFar.size())];
  return one_in(3) ? below(20'000) : kEdges[below(kEdges.size())];
}

std::uint64_t Generator::pick_length() {
  static constexpr std::array<std::uint64_t, 8> kEdges = {0, 1, 2, 4095, 4096, 4097, 8192, 10'000};
  return one_in(3) ? below(15'000) : kEdges[below(kEdges.size())];
}

std::string Generator::pick_data() {
  std::string data(pick_length(), '\0');
  std::uint64_t seed = random_();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(seed + i * 7 + i / 256);
  return data;
}

SetTime Generator::pick_time() {
  if (one_in(3)) return SetTime::now();
  auto nanoseconds = static_cast<std::int32_t>(below(1'000'000'000));
  if (one_in(15)) nanoseconds = one_in(2) ? -1 : 1'000'000'000;
  return SetTime::to(
      {.seconds = static_cast<std::int64_t>(below(4'000'000'000)) - 1'000'000'000, .nanoseconds = nanoseconds});
}

AttributeChanges Generator::pick_changes() {
  AttributeChanges changes;
  if (one_in(3)) changes.mode = static_cast<std::uint32_t>(random_());
  if (one_in(4)) changes.uid = static_cast<std::uint32_t>(random_());
  if (one_in(4)) changes.gid = static_cast<std::uint32_t>(random_());
  if (one_in(3)) changes.size = pick_offset();
  if (one_in(4)) changes.atime = pick_time();
  if (one_in(4)) changes.mtime = pick_time();
  return changes;
}

NewNode Generator::pick_new_node(Call call) {
  static constexpr std::array<std::uint32_t, 9> kTypes = {S_IFREG, 0,       S_IFIFO, S_IFSOCK, S_IFCHR,
                                                          S_IFBLK, S_IFDIR, S_IFLNK, S_IFMT};
  NewNode node{.mode = static_cast<std::uint32_t>(below(010000)),
               .owner = {.uid = static_cast<std::uint32_t>(below(3)), .gid = static_cast<std::uint32_t>(below(3))},
               .rdev = below(1 << 20)};
  if (call == Call::kMakeNode) node.mode |= kTypes[below(one_in(4) ? kTypes.size() : 2)];
  return node;
}

Operation Generator::next(const std::vector<Known>& known, std::size_t open_units) {
  Operation next{.call = pick_call(open_units)};
  next.node = pick_node(known, type_for(next.call));
  next.other = pick_node(known, next.call == Call::kCopyRange ? S_IFREG : S_IFDIR);
  bool is_xattr = next.call == Call::kGetXattr || next.call == Call::kSetXattr || next.call == Call::kRemoveXattr;
  next.name = is_xattr ? pick_xattr_name() : pick_name();
  next.other_name = pick_name();
  next.offset = pick_offset();
  next.other_offset = pick_offset();
  next.length = pick_length();
  next.new_node = pick_new_node(next.call);
  next.rename_mode = static_cast<RenameMode>(one_in(3) ? below(3) : 0);
  next.allocate_mode = static_cast<AllocateMode>(below(5));
  next.xattr_mode = static_cast<XattrMode>(below(3));
  if (next.call == Call::kSetAttributes) next.changes = pick_changes();
  if (next.call == Call::kMakeSymlink) next.data = pick_target();
  if (next.call == Call::kWrite || next.call == Call::kAppend || next.call == Call::kSetXattr) next.data = pick_data();
  if (next.call == Call::kSetXattr && one_in(30)) next.data.resize(limits::kXattrValueBytes + below(2));
  if (next.call == Call::kCopyRange && one_in(3)) make_ranges_meet(next);
  if (next.call == Call::kForget) next.length = 1 + below(3);
  if (next.call == Call::kList) next.length = 1 + below(10);
  return next;
}

}  // namespace warren::testing
