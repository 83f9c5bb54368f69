// The words every filesystem here speaks: inode numbers, attributes, directory entries.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <sys/stat.h>

#include "base/clock.h"

namespace warren {

// The number of a file, directory or other node; names lead to it.
struct Inode {
  std::uint64_t value = 0;

  auto operator<=>(const Inode&) const = default;
};

inline constexpr Inode kRootInode{1};

struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  bool operator==(const Owner&) const = default;
};

// What stat tells. `mode` carries the file type (S_IFMT) and the twelve permission bits.
struct Attributes {
  Inode inode;
  std::uint32_t mode = 0;
  std::uint32_t nlink = 0;  // of a directory: 2 + its subdirectories, or 1 if unknown; of an unlinked node: 0
  Owner owner;
  std::uint64_t size = 0;
  Timestamp atime;
  Timestamp mtime;
  Timestamp ctime;
  std::uint64_t rdev = 0;
  // Only of a node of the host: its device, the number it has there, and which of all the nodes with that number it is
  // (os/host_stat.h).
  std::uint64_t host_device = 0;
  std::uint64_t host_inode = 0;
  std::uint64_t generation = 0;

  bool operator==(const Attributes&) const = default;

  bool is_directory() const { return S_ISDIR(mode); }
  bool is_file() const { return S_ISREG(mode); }
  bool is_symlink() const { return S_ISLNK(mode); }
};

// A time to set: a given one, the filesystem's now, or (absent in AttributeChanges) leave it.
struct SetTime {
  std::optional<Timestamp> at;  // nullopt: now

  static SetTime now() { return {}; }
  static SetTime to(Timestamp at) { return {at}; }
};

// What setattr changes; what is not set stays. ctime moves whenever anything is set.
struct AttributeChanges {
  std::optional<std::uint32_t> mode;  // permission bits only; the type never changes
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint64_t> size;  // regular files; mtime moves too, unless set here
  std::optional<SetTime> atime;
  std::optional<SetTime> mtime;
};

// What a new node gets. `mode` for create and mkdir is permission bits; for mknod it has the type.
struct NewNode {
  std::uint32_t mode = 0;
  Owner owner;
  std::uint64_t rdev = 0;
};

// One row of a listing. Pass `cookie` to continue after this entry.
struct DirEntry {
  std::uint64_t cookie = 0;
  std::string name;
  Inode inode;
  std::uint32_t type = 0;                // S_IFMT bits
  std::optional<Attributes> attributes;  // with DirDetail::kAttributes

  bool operator==(const DirEntry&) const = default;
};

// What a listing tells; the less, the cheaper.
enum class DirDetail {
  kNames,       // names and cookies; inode and type may be missing (0)
  kTypes,       // inode and type as well
  kAttributes,  // and everything that stat tells
};

enum class RenameMode {
  kReplace,    // what stands at the new name goes
  kNoReplace,  // kExists if anything stands there
  kExchange,   // both names must exist and swap what they mean
};

// fallocate. Everything but kAllocate leaves the size as it is unless said otherwise.
enum class AllocateMode {
  kAllocate,   // grows the size to cover the range
  kKeepSize,   // promises nothing we do not promise anyway: succeeds, changes nothing
  kPunchHole,  // the range reads as zeros and takes no space
  kZeroRange,  // the range reads as zeros; grows the size to cover it
  kZeroRangeKeepSize,
};

enum class XattrMode { kAny, kCreate, kReplace };

// What statfs tells. A capacity of 0 means: no limit but the disk's.
struct FileSystemStats {
  std::uint64_t block_bytes = 4096;
  std::uint64_t used_bytes = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t used_inodes = 0;
  std::uint64_t capacity_inodes = 0;
};

}  // namespace warren

template <>
struct std::hash<warren::Inode> {
  std::size_t operator()(warren::Inode inode) const noexcept { return std::hash<std::uint64_t>{}(inode.value); }
};
