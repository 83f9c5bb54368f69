// The commands cp, mv, chmod, touch, find and du for any FileSystem.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "fs/file.h"
#include "fs/path_ops.h"

namespace warren {

// The destination of copying or moving `from` to `to`: a path inside `to` if that is a directory, else `to`.
Result<std::string> destination_of(FileSystem& fs, std::string_view from, std::string_view to);

// The output of ls: the entries of a directory, or the single file that the path names.
struct Listing {
  bool is_directory = false;
  std::vector<NamedAttributes> entries;
};
Result<Listing> list_path(FileSystem& fs, std::string_view path);

// Called before each file and directory that is copied, so that long work can be stopped; what was copied then stays.
using CopyCheck = std::function<Status()>;

// cp. A directory needs Recursive::kYes. Links are copied as links; a tree keeps its modes and times. Copying a
// directory into itself fails with kInvalid. A tree of which something cannot be copied is removed again, as far as it
// is new. Between mounts, a file of at most 256 MiB is read and written. Returns the path of the copy: inside of `to`
// if that is a directory.
enum class MergeDirs { kNo, kYes };  // kNo: a directory is not copied over one that exists (kExists)
struct CopyPathOptions {
  Recursive recursive = Recursive::kNo;
  MergeDirs merge = MergeDirs::kYes;
  CopyCheck check;
};
Result<std::string> copy_path(FileSystem& fs, std::string_view from, std::string_view to,
                              const CopyPathOptions& options);

// mv, into `to` if that is a directory; as rename_or_copy.
Status move_path(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode);
// Renames. Where that is not possible, between mounts or where other rules hold (kCrossDevice), it copies, syncs the
// copy and then removes what it copied, if that is still as it was. Extended attributes and the time to live move, too;
// where the target cannot have them, or a link or pipe in a tree, nothing is moved. An original that cannot be removed
// is original_stays: part of it may be only in the copy by then.
Status rename_or_copy(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode,
                      CopyCheck check = {});
// The error for that. Both are quoted already.
Error original_stays(const Error& why, std::string_view from, std::string_view to);

// Applies "644", "u+x", "go-w" or "a=r,u+w" to `mode` and returns the new permission bits.
Result<std::uint32_t> apply_mode(std::string_view text, std::uint32_t mode);
Status change_mode(FileSystem& fs, std::string_view path, std::string_view text, Recursive recursive);

// touch: sets both times. Creates a missing file unless `create` is kNo.
struct TouchOptions {
  SetTime time;
  Create create = Create::kIfMissing;
};
Status touch(FileSystem& fs, std::string_view path, const TouchOptions& options);

// Replaces the content of a file that is still what it was, in one change; nullopt: it must not exist. Mode, owner and
// the time at which it expires stay. kConflict if it is something else now.
Status replace_if_unchanged(FileSystem& fs, std::string_view path, const std::optional<std::string>& before,
                            Bytes data);

struct FindOptions {
  std::optional<std::string> name;    // a glob on the last name: * ? [a-z]
  std::optional<std::uint32_t> type;  // S_IFMT bits
  std::optional<std::uint64_t> size_min;
  std::optional<std::uint64_t> size_max;
  std::optional<Timestamp> newer;  // mtime later than this
  std::optional<int> depth_max;    // 0: only the start
};
using FindVisitor = std::function<Status(const WalkEntry&)>;
Status find(FileSystem& fs, std::string_view path, const FindOptions& options, const FindVisitor& visit);

struct DiskUsage {
  std::uint64_t bytes = 0;  // sizes of files and links, each hard-linked file once
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
};
using UsageVisitor = std::function<Status(std::string_view directory, const DiskUsage&)>;
// Calls `visit` for each directory with the usage at and below it, deepest first, the start last.
Result<DiskUsage> disk_usage(FileSystem& fs, std::string_view path, const UsageVisitor& visit);

bool matches_glob(std::string_view pattern, std::string_view name);

}  // namespace warren
