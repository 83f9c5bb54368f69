// A directory of the host with everything below it, to be changed by path, and never anything outside.
//
// Paths are of the tree: "/a/b" is b in a in the tree's top. No symbolic link is followed, not at the end
// and not on the way, whoever puts one there and when (openat2, O_NOFOLLOW). Errors name the path.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Enough to know a node again. Of a directory the size and the time say nothing.
struct HostNode {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint32_t type = 0;  // S_IFMT bits
  std::uint64_t size = 0;
  Timestamp mtime;

  static HostNode of(const struct stat& info);
  bool is_same(const struct stat& info) const;
  bool operator==(const HostNode&) const = default;
};

using HostXattrs = std::map<std::string, std::string>;

// What a node has beside its content.
struct HostMetadata {
  std::uint32_t mode = 0;  // the twelve permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  Timestamp atime;
  Timestamp mtime;
  HostXattrs xattrs;  // those named in `user.`, and others that are set explicitly

  bool operator==(const HostMetadata&) const = default;
};

enum class HostReplace { kNo, kYes };

// One thread.
class HostTree {
 public:
  static Result<std::unique_ptr<HostTree>> open(const std::string& path);  // follows links: the user's own

  int top() const { return top_.get(); }

  // For one process at a time, until this goes. kBusy.
  Status lock();

  Result<std::optional<struct stat>> find(std::string_view path);  // nullopt also where a parent is missing
  Result<struct stat> get(std::string_view path);                  // kNotFound
  Result<std::uint64_t> get_mount(std::string_view path);          // the mount it is on: only within one can be renamed
  Status check_writable(std::string_view dir);  // whether entries could be made there, as far as one can tell

  Status rename(std::string_view from, std::string_view to, HostReplace replace);
  Status link(std::string_view from, std::string_view to);
  Status make_dir(std::string_view path, std::uint32_t mode);
  Status make_symlink(std::string_view path, std::string_view target);
  Status make_special(std::string_view path, std::uint32_t mode, std::uint64_t rdev);
  Result<Fd> create_file(std::string_view path);           // kExists; to read and write, for us alone
  Result<Fd> open_file(std::string_view path, int flags);  // O_RDONLY or O_RDWR; kInvalid if it is no regular file
  Result<std::string> read_link(std::string_view path);
  Status remove_file(std::string_view path);
  Status remove_dir(std::string_view path);
  Status remove_tree(std::string_view path);                // fine if there is nothing
  Result<std::uint64_t> count_tree(std::string_view path);  // nodes, itself too

  Result<HostMetadata> get_metadata(std::string_view path);
  // Owner, mode, attributes, times, in that order. Returns whether the owner could be set; when it could
  // not, set-user-id and set-group-id bits are left out. Attributes that the filesystem or our rights do
  // not allow are left out silently, except in `user.`.
  Result<bool> set_metadata(std::string_view path, const HostMetadata& to);

  Status sync_dir(std::string_view path);
  Status sync_all(std::string_view dir = "/");  // the whole filesystem that the directory is on

 private:
  struct Place {
    int dir;
    std::string name;
  };
  explicit HostTree(Fd top) : top_(std::move(top)) {}
  Result<int> open_dir(std::string_view dir);
  Result<Place> place(std::string_view path);
  Status set_xattrs(const std::string& link, const HostXattrs& to, std::string_view path);

  Fd top_;
  std::map<std::string, Fd, std::less<>> dirs_;  // open by path; dropped when a directory moves
};

// Where the data of a file is: copies a range of `from` to the same place in `to`; holes stay holes.
// Returns the size.
Result<std::uint64_t> copy_host_content(int from, int to);

}  // namespace warren
