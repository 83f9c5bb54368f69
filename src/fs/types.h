// The basic types of every filesystem here: inode numbers, attributes, directory entries.
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

// A name and the directory that has it.
struct EntryName {
  Inode parent;
  std::string name;

  bool operator==(const EntryName&) const = default;
};

struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;

  bool operator==(const Owner&) const = default;
};

// The result of stat. `mode` has the file type (S_IFMT) and the twelve permission bits.
struct Attributes {
  Inode inode;
  std::uint32_t mode = 0;
  std::uint32_t nlink = 0;  // a directory: 2 + its subdirectories, or 1 if unknown; an unlinked node: 0
  Owner owner;
  std::uint64_t size = 0;
  Timestamp atime;
  Timestamp mtime;
  Timestamp ctime;
  std::uint64_t rdev = 0;
  // Set only for a node of the host: its device, its number there, and the generation that distinguishes it from other
  // nodes with that number (os/files/host_stat.h).
  std::uint64_t host_device = 0;
  std::uint64_t host_inode = 0;
  std::uint64_t generation = 0;

  bool operator==(const Attributes&) const = default;

  bool is_directory() const { return S_ISDIR(mode); }
  bool is_file() const { return S_ISREG(mode); }
  bool is_symlink() const { return S_ISLNK(mode); }
};

// A time to set: a given one, or the filesystem's now. (Absent in AttributeChanges: unchanged.)
struct SetTime {
  std::optional<Timestamp> at;  // nullopt: now

  static SetTime now() { return {}; }
  static SetTime to(Timestamp at) { return {at}; }
};

// The changes of setattr; unset members stay. Setting any updates ctime.
struct AttributeChanges {
  std::optional<std::uint32_t> mode;  // permission bits only; the type never changes
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::uint64_t> size;  // regular files; also updates mtime, unless set here
  std::optional<SetTime> atime;
  std::optional<SetTime> mtime;
};

// The attributes of a new node. For create and mkdir `mode` has permission bits only; for mknod also the type.
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

// How much a listing returns; less is cheaper.
enum class DirDetail {
  kNames,       // names and cookies; inode and type may be missing (0)
  kTypes,       // inode and type as well
  kAttributes,  // all attributes as well
};

enum class RenameMode {
  kReplace,    // replaces an existing node at the new name
  kNoReplace,  // kExists if the new name is taken
  kExchange,   // both names must exist and swap their nodes
};

// fallocate. Only kAllocate and kZeroRange change the size.
enum class AllocateMode {
  kAllocate,   // grows the size to cover the range
  kKeepSize,   // succeeds and changes nothing: space is never reserved
  kPunchHole,  // the range reads as zeros and takes no space
  kZeroRange,  // the range reads as zeros; grows the size to cover it
  kZeroRangeKeepSize,
};

enum class XattrMode { kAny, kCreate, kReplace };

// The result of statfs. A capacity of 0 means that only the disk is the limit.
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
