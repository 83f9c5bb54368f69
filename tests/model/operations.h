// One call of FileSystem as a value: generated from a seed, applied to two filesystems, printed on failure.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fs/file_system.h"

namespace warren::testing {

enum class Call {
  kLookup,
  kMakeNode,
  kMakeDir,
  kMakeSymlink,
  kCreate,
  kLink,
  kUnlink,
  kRemoveDir,
  kRename,
  kList,
  kGetAttributes,
  kSetAttributes,
  kReadLink,
  kRetain,
  kForget,
  kOpen,
  kRead,
  kWrite,
  kAppend,
  kAllocate,
  kSeekData,
  kSeekHole,
  kCopyRange,
  kSync,
  kGetXattr,
  kListXattrs,
  kSetXattr,
  kRemoveXattr,
  kBegin,
  kEnd,
};

// A node that both filesystems know, each by its own inode number. If it no longer exists, calls on it must fail alike.
struct Known {
  Inode oracle;
  Inode subject;
  std::uint32_t type = 0;      // S_IFMT bits
  std::uint64_t held = 0;      // how often it is retained
  bool was_copied_to = false;  // then its holes may differ between filesystems
};

// The call determines which members are used; nodes are indexes into the known nodes.
struct Operation {
  Call call = Call::kLookup;
  std::size_t node = 0;
  std::size_t other = 0;
  std::string name;
  std::string other_name;
  std::string data;
  std::uint64_t offset = 0;
  std::uint64_t other_offset = 0;
  std::uint64_t length = 0;
  NewNode new_node;
  AttributeChanges changes;
  RenameMode rename_mode = RenameMode::kReplace;
  AllocateMode allocate_mode = AllocateMode::kAllocate;
  XattrMode xattr_mode = XattrMode::kAny;
};

std::string describe(const Operation& operation);

// The result of a call as text that does not depend on inode numbers, and the node it returned.
struct Outcome {
  std::string text;
  std::optional<Attributes> node;
};

// Applies any call except kBegin and kEnd, whose units outlive it.
Outcome apply(FileSystem& fs, const Operation& operation, Inode node, Inode other);

std::string describe(const Attributes& attributes);  // without the inode number

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  Operation next(const std::vector<Known>& known, std::size_t open_units);
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

 private:
  Call pick_call(std::size_t open_units);
  std::size_t pick_node(const std::vector<Known>& known, std::uint32_t type);
  std::size_t pick_held(const std::vector<Known>& known, std::uint32_t type);
  void make_ranges_meet(Operation& copy);
  std::string pick_name();
  std::string pick_xattr_name();
  std::string pick_target();
  std::string pick_data();
  std::uint64_t pick_offset();
  std::uint64_t pick_length();
  AttributeChanges pick_changes();
  SetTime pick_time();
  NewNode pick_new_node(Call call);
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  std::mt19937_64 random_;
};

}  // namespace warren::testing
