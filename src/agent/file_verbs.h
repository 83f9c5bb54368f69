// What a person means by cp, mv, find and du, on any FileSystem.
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

// Where `from` goes when a person says `to`: into it, under its own name, when `to` is a directory.
Result<std::string> destination_of(FileSystem& fs, std::string_view from, std::string_view to);

// What ls shows: the entries of a directory, or the one file that the path names.
struct Listing {
  bool is_directory = false;
  std::vector<NamedAttributes> entries;
};
Result<Listing> list_path(FileSystem& fs, std::string_view path);

// cp. A directory needs kYes; links are copied as links, modes and times are kept in a tree.
// Copying a directory into itself is kInvalid.
Status copy_path(FileSystem& fs, std::string_view from, std::string_view to, Recursive recursive);

Status move_path(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode);

// "644", "u+x", "go-w", "a=r,u+w": the new permission bits, from what is there.
Result<std::uint32_t> apply_mode(std::string_view text, std::uint32_t mode);
Status change_mode(FileSystem& fs, std::string_view path, std::string_view text, Recursive recursive);

// touch: sets both times, and makes the file when it is missing and `create` says so.
struct TouchOptions {
  SetTime time;
  Create create = Create::kIfMissing;
};
Status touch(FileSystem& fs, std::string_view path, const TouchOptions& options);

struct FindOptions {
  std::optional<std::string> name;    // a glob on the last name: * ? [a-z]
  std::optional<std::uint32_t> type;  // S_IFMT bits
  std::optional<std::uint64_t> size_min;
  std::optional<std::uint64_t> size_max;
  std::optional<Timestamp> newer;  // mtime later than this
  std::optional<int> depth_max;    // 0: the start alone
};
using FindVisitor = std::function<Status(const WalkEntry&)>;
Status find(FileSystem& fs, std::string_view path, const FindOptions& options, const FindVisitor& visit);

struct DiskUsage {
  std::uint64_t bytes = 0;  // sizes of files and links, each hard-linked file once
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
};
using UsageVisitor = std::function<Status(std::string_view directory, const DiskUsage&)>;
// Calls `visit` for each directory with what is below it, deepest first, the start last.
Result<DiskUsage> disk_usage(FileSystem& fs, std::string_view path, const UsageVisitor& visit);

bool matches_glob(std::string_view pattern, std::string_view name);

}  // namespace warren
