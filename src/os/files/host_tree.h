// Changes to a directory tree of the host by path, never to anything outside it.
//
// Paths start at the top of the tree: "/a/b" is b in a in the top directory. No symbolic link is followed, neither at
// the end nor on the way, even if one appears meanwhile (openat2, O_NOFOLLOW). Errors name the path.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Enough to recognise a node. Size and time are not compared for directories.
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

// The attributes of a node besides its content.
struct HostMetadata {
  std::uint32_t mode = 0;  // the twelve permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  Timestamp atime;
  Timestamp mtime;
  HostXattrs xattrs;  // those in `user.`, and any others that are set explicitly

  bool operator==(const HostMetadata&) const = default;
};

enum class HostReplace { kNo, kYes };

// For one thread.
class HostTree {
 public:
  static Result<std::unique_ptr<HostTree>> open(const std::string& path);  // follows links: given by the user

  int top() const { return top_.get(); }

  // Locks the tree for this process until the object is destroyed. kBusy.
  Status lock();

  Result<std::optional<struct stat>> find(std::string_view path);  // nullopt also if a parent is missing
  Result<struct stat> get(std::string_view path);                  // kNotFound
  Result<std::uint64_t> get_mount(std::string_view path);          // the mount it is on: renames work only within one
  Status check_writable(std::string_view dir);  // whether we seem to be allowed to create entries there

  Status rename(std::string_view from, std::string_view to, HostReplace replace);
  Status exchange(std::string_view a, std::string_view b);  // both exist; kUnsupported if the filesystem cannot
  Status link(std::string_view from, std::string_view to);
  Status make_dir(std::string_view path, std::uint32_t mode);
  Status make_symlink(std::string_view path, std::string_view target);
  Status make_special(std::string_view path, std::uint32_t mode, std::uint64_t rdev);
  Result<Fd> create_file(std::string_view path);           // kExists; for reading and writing, mode 0600
  Result<Fd> open_file(std::string_view path, int flags);  // O_RDONLY or O_RDWR; kInvalid if it is not a regular file
  // Also if its mode forbids that, but the file is ours: then the mode is changed for a moment. O_RDONLY or O_RDWR.
  Result<Fd> open_despite_mode(std::string_view path, int access);
  // Returns the errors of opening it so for reading and writing, without changing the mode.
  Status check_overwritable(std::string_view path);
  Result<std::string> read_link(std::string_view path);
  Status remove_file(std::string_view path);
  Status remove_dir(std::string_view path);
  Status remove_tree(std::string_view path);  // succeeds if nothing is there
  // Of names, types, modes, sizes and times: changes when a node in the tree is added, removed or written. A copy with
  // the same times has the same digest. Never 0.
  struct TreeDigest {
    std::uint64_t value = 0;
    std::uint64_t nodes = 0;  // including itself
  };
  // Without the paths in `skipped` and what is below them.
  Result<TreeDigest> digest_tree(std::string_view path, const std::unordered_set<std::string>& skipped = {});
  // Of names, types, modes, the content of files and the targets of links: what was written again as it was has the
  // same one. Reads everything. For a file that we may not read its size and time count. Never 0.
  Result<std::uint64_t> fingerprint_tree(std::string_view path, const std::unordered_set<std::string>& skipped = {});

  Result<HostMetadata> get_metadata(std::string_view path);
  // Sets owner, mode, attributes and times, in that order. Returns whether the owner could be set; if not, set-user-id
  // and set-group-id bits are left out. Attributes that the filesystem or our rights do not allow are silently left
  // out, except in `user.`.
  Result<bool> set_metadata(std::string_view path, const HostMetadata& to);

  Status sync_dir(std::string_view path);
  Status sync_all(std::string_view dir = "/");  // the whole filesystem of the directory

 private:
  struct Place {
    int dir;
    std::string name;
  };
  explicit HostTree(Fd top) : top_(std::move(top)) {}
  Result<int> open_dir(std::string_view dir);
  Result<Place> place(std::string_view path);
  Status set_xattrs(const std::string& link, const HostXattrs& to, std::string_view path);
  enum class DigestContent { kNo, kYes };
  Result<TreeDigest> digest(std::string_view path, const std::unordered_set<std::string>& skipped,
                            DigestContent content);
  // nullopt if we may not read it.
  Result<std::optional<std::uint64_t>> digest_content(const std::string& path, const struct stat& node);

  Fd top_;
  std::map<std::string, Fd, std::less<>> dirs_;  // open directories by path; closed when a directory moves
};

// Of the content of a file: the same for holes and zeros. Against accidents, not against an enemy.
Result<std::uint64_t> digest_host_content(int fd);

// Whether the file has exactly this content, or is what an interrupted copy_host_content of it leaves: empty, or with
// pages of zeros that are not written yet.
Result<bool> is_copy_of(int file, int source);

// Copies the content of a file to the same offsets in `to`; holes stay holes. Returns the size.
Result<std::uint64_t> copy_host_content(int from, int to);

}  // namespace warren
