// Files by path, on any FileSystem: for the SDKs, the command line and the tools.
//
// fs/path_walk.h describes how a path is resolved. Each call is one Unit: it sees one state, and its changes take
// effect together or not at all (except for whole trees, see fs/tree_ops.h). Every error names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/path_walk.h"
#include "fs/tree_ops.h"

namespace warren {

// Queries.
Result<Attributes> resolve(FileSystem& fs, std::string_view path, Follow follow = Follow::kYes);
Result<Attributes> stat(FileSystem& fs, std::string_view path);   // follows a link at the end
Result<Attributes> lstat(FileSystem& fs, std::string_view path);  // does not
Status access(FileSystem& fs, std::string_view path);             // whether the path exists
Result<bool> exists(FileSystem& fs, std::string_view path);       // false also if a parent is not a directory

// Content.
struct ReadFileOptions {
  std::uint64_t size_bytes_max = limits::kReadFileBytes;  // kTooLarge for a larger file
};
Result<std::string> read_file(FileSystem& fs, std::string_view path, const ReadFileOptions& options = {});
Result<std::size_t> read_at(FileSystem& fs, std::string_view path, std::uint64_t offset, MutableBytes out);

struct WriteFileOptions {
  std::uint32_t mode = 0644;  // of a new file; an existing one keeps its own
  std::uint32_t dir_mode = 0755;
  Owner owner;                                // of everything this creates
  std::optional<std::int64_t> expires_at_ms;  // fs/expiry.h; only write_file. nullopt: the file does not expire
};
// Replaces the content; creates the file and missing parents.
Status write_file(FileSystem& fs, std::string_view path, Bytes data, const WriteFileOptions& options = {});
Status append_file(FileSystem& fs, std::string_view path, Bytes data, const WriteFileOptions& options = {});
Status write_at(FileSystem& fs, std::string_view path, std::uint64_t offset, Bytes data);  // the file must exist
Status truncate(FileSystem& fs, std::string_view path, std::uint64_t size);

// Copies content and permission bits; holes stay holes. An existing file at `to` keeps its inode and owner. Copying a
// file onto itself is kInvalid.
struct CopyFileOptions {
  Owner owner;  // of a new file
};
Status copy_file(FileSystem& fs, std::string_view from, std::string_view to, const CopyFileOptions& options = {});

// Directories. Names are sorted by bytes and returned all at once; use DirStream for directories too large for that.
struct NamedAttributes {
  std::string name;
  Attributes attributes;

  bool operator==(const NamedAttributes&) const = default;
};
Result<std::vector<std::string>> read_dir(FileSystem& fs, std::string_view path);
Result<std::vector<NamedAttributes>> read_dir_plus(FileSystem& fs, std::string_view path);

struct MakeDirOptions {
  std::uint32_t mode = 0755;
  Owner owner;
};
Result<Attributes> make_dir(FileSystem& fs, std::string_view path, const MakeDirOptions& options = {});
// Creates missing parents. Succeeds if the directory exists; kExists if anything else has the name.
Result<Attributes> make_dirs(FileSystem& fs, std::string_view path, const MakeDirOptions& options = {});

// Names. Here a path that ends in '.' or '..' is kInvalid, and the root is kBusy.
Status remove_dir(FileSystem& fs, std::string_view path);
Status unlink(FileSystem& fs, std::string_view path);
Status rename(FileSystem& fs, std::string_view from, std::string_view to, RenameMode mode = RenameMode::kReplace);
Result<Attributes> link(FileSystem& fs, std::string_view from, std::string_view to);  // `from` is not followed
Result<Attributes> make_symlink(FileSystem& fs, std::string_view target, std::string_view path, Owner owner = {});
Result<Attributes> make_node(FileSystem& fs, std::string_view path, const NewNode& node);
Result<std::string> read_link(FileSystem& fs, std::string_view path);

// Attributes. Follow::kNo: of the link itself.
Result<Attributes> set_attributes(FileSystem& fs, std::string_view path, const AttributeChanges& changes,
                                  Follow follow = Follow::kYes);
Status set_mode(FileSystem& fs, std::string_view path, std::uint32_t mode);
Status set_owner(FileSystem& fs, std::string_view path, Owner owner, Follow follow = Follow::kYes);
Status set_times(FileSystem& fs, std::string_view path, SetTime atime, SetTime mtime, Follow follow = Follow::kYes);

Result<std::string> get_xattr(FileSystem& fs, std::string_view path, std::string_view name,
                              Follow follow = Follow::kYes);
Result<std::vector<std::string>> list_xattrs(FileSystem& fs, std::string_view path, Follow follow = Follow::kYes);
Status set_xattr(FileSystem& fs, std::string_view path, std::string_view name, Bytes value,
                 XattrMode mode = XattrMode::kAny, Follow follow = Follow::kYes);
Status remove_xattr(FileSystem& fs, std::string_view path, std::string_view name, Follow follow = Follow::kYes);

}  // namespace warren
