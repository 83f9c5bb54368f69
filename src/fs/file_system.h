// The central interface of Warren: the operations of every filesystem, by inode.
//
// By inode, so that a mount needs no translation; path helpers (fs/path_ops.h) build on it and work on any FileSystem.
// Overlay, policy, audit, encryption and fault injection are wrappers that implement this interface around another one.
//
// There are no default implementations: a wrapper derives from ForwardingFs, which passes every call on, and a call
// that is added here does not compile until that one does.
//
// Rules for every implementation, checked by tests/conformance:
// - Names are bytes (base/path.h check_name). A bad name is refused before anything changes.
// - A failed call changes nothing.
// - Times: creating, removing or renaming an entry updates mtime and ctime of its directory; changing a node updates
//   its ctime; writing updates mtime and ctime. Reading never writes, so atime changes only when it is set.
// - A new node in a setgid directory gets the directory's group, and a new directory there is setgid itself.
// - There are no permission checks here: whoever holds a FileSystem may use it. The kernel checks for a mount
//   (default_permissions); policy is a wrapper.
//
// Thread-safe, unless an implementation says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "fs/change_listener.h"
#include "fs/types.h"
#include "os/fd.h"

namespace warren {

// An open directory. Entries come in the filesystem's order, without "." and "..". An entry that exists throughout is
// returned exactly once, whatever is added or removed between pages. For one thread at a time.
class DirStream {
 public:
  virtual ~DirStream() = default;

  // Up to `max` entries after `cookie` (0: from the start); empty at the end. A cookie stays valid while any stream of
  // the directory is open, for all of them, even if its entry is removed. Cookies are 3 or more, so that a door can use
  // 1 and 2 for "." and "..", and less than 2^61, so that a wrapper can use the rest.
  virtual Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) = 0;
};

enum class UnitAccess { kRead, kWrite };

// Several calls as one: while it exists, this thread's calls see one state, and their changes take effect together at
// commit(), or not at all. Other threads and processes wait to write meanwhile, so keep it short. Units nest; only the
// outermost takes effect. Without commit() a write unit is rolled back.
//
// A filesystem without transactions (host) isolates the calls but cannot roll back.
class Unit {
 public:
  virtual ~Unit() = default;
  virtual Status commit() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<Unit>> begin(UnitAccess access) = 0;

  // Names.
  virtual Result<Attributes> lookup(Inode parent, std::string_view name) = 0;  // kNotFound, kNotDirectory
  virtual Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node) = 0;
  virtual Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node) = 0;
  virtual Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target,
                                          Owner owner) = 0;
  virtual Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name) = 0;
  virtual Status unlink(Inode parent, std::string_view name) = 0;      // kIsDirectory for a directory
  virtual Status remove_dir(Inode parent, std::string_view name) = 0;  // kNotEmpty
  virtual Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                        RenameMode mode) = 0;
  virtual Result<std::unique_ptr<DirStream>> open_dir(Inode dir) = 0;

  // Every name that the node has now; none for the root. May search the whole filesystem. kUnsupported where it could
  // not be done at all.
  virtual Result<std::vector<EntryName>> list_names_of(Inode) {
    return Error(Code::kUnsupported, "this filesystem does not know all names of a node");
  }

  // Nodes.
  virtual Result<Attributes> get_attributes(Inode node) = 0;  // kStale once the node is gone
  virtual Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes) = 0;
  virtual Result<std::string> read_link(Inode node) = 0;  // kInvalid if it is not a symlink

  // A retained node outlives its last name: it can be read and written until it has been forgotten as often as it was
  // retained. After a crash such nodes are collected when the agent is next opened.
  virtual Status retain(Inode node) = 0;
  virtual void forget(Inode node, std::uint64_t count) = 0;

  // create is make_node of a regular file plus retain; open checks that it is a regular file and
  // retains; release forgets once.
  virtual Result<Attributes> create(Inode parent, std::string_view name, const NewNode& node) = 0;
  virtual Result<Attributes> open(Inode node) = 0;
  virtual void release(Inode node) = 0;

  // Content of regular files. read returns the number of bytes read, fewer than asked only at the end. Holes read as
  // zeros. write and append write everything or fail.
  virtual Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) = 0;
  virtual Status write(Inode node, std::uint64_t offset, Bytes data) = 0;
  virtual Result<std::uint64_t> append(Inode node, Bytes data) = 0;  // returns the offset of the data
  virtual Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) = 0;
  virtual Result<std::uint64_t> seek_data(Inode node, std::uint64_t offset) = 0;  // kNoData: none from there on
  virtual Result<std::uint64_t> seek_hole(Inode node, std::uint64_t offset) = 0;  // the end counts as a hole
  // Copies up to `length` bytes, ending at the source's end; ranges of one file must not overlap.
  virtual Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                           std::uint64_t length) = 0;

  // A descriptor for reading the host file with this node's whole content, valid until the node is changed. Usually
  // returns a closed Fd: the node has no such file.
  virtual Result<Fd> open_backing(Inode node) = 0;

  // Reserves a number for the node with this generation, because the caller stores both: no other node will get it.
  // Usually does nothing, because numbers are never reused.
  virtual void reserve_number(Inode node, std::uint64_t generation) = 0;

  // A program closes the file. A filesystem that gathers writes stores them and reports a failure; most do nothing, and
  // closing promises nothing.
  virtual Status flush(Inode node) = 0;

  // After it returns, a crash loses nothing of this node; of the root: nothing of the whole filesystem.
  virtual Status sync(Inode node) = 0;

  // Extended attributes.
  virtual Result<std::string> get_xattr(Inode node, std::string_view name) = 0;  // kNoData
  virtual Result<std::vector<std::string>> list_xattrs(Inode node) = 0;          // sorted
  virtual Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) = 0;
  virtual Status remove_xattr(Inode node, std::string_view name) = 0;  // kNoData

  // Of the filesystem that holds the node: mounts differ.
  virtual Result<FileSystemStats> stats(Inode node) = 0;

  // Does a few microseconds of pending work, for a caller that would otherwise idle. False if there is none, or if it
  // would have to wait.
  virtual bool run_idle_work() = 0;

  // Equal to an earlier answer only if nothing here has changed since, by whomever or because a file expired: for
  // callers that keep what they have read, who ask before and after reading. Unset if that cannot be told without
  // looking, as for most. No I/O.
  virtual std::optional<std::uint64_t> change_mark() { return std::nullopt; }
  // Changes when other processes have changed something, or an older state was restored: a read that sees it moves it.
  // 0 where neither can happen, or where that is not noticed.
  virtual std::uint64_t others_mark() { return 0; }

  // Reports to one listener the changes that were not made through this object; null stops that, and returns when no
  // call is in progress. Succeeds without effect if nobody else can make changes; kUnsupported if others can but we
  // could not notice. One call at a time.
  virtual Status listen(ChangeListener* listener) = 0;
};

}  // namespace warren
