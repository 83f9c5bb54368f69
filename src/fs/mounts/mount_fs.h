// Several filesystems as one tree.
//
// A mount is a filesystem whose root is shown at a path, and covers whatever is there below. The mount points and their
// parents cannot be removed, renamed or replaced (kBusy). They need not exist in the filesystem below: a missing one is
// shown as a directory that nothing can be made in. In a listing, they come first.
//
// Numbers: the filesystem at "/" keeps its own; a node of a mount has the mount's slot in bits 56 to 61. So a number
// stays what it is as long as its mount has the same slot, and no table is needed to translate it. A filesystem whose
// numbers use these bits cannot be mounted; one node of that kind is kCorrupt.
//
// Between mounts: rename, link and copy_range are kCrossDevice. A unit belongs to the mount it touches, and moves on to
// another as long as it has changed nothing; after that, every call for another mount is kCrossDevice. So a unit holds
// the lock of one mount at a time, and two units never wait for each other.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "fs/file_system.h"

namespace warren {

struct Mount {
  std::string path;  // absolute; not "/"
  FileSystem& fs;    // outlives the tree
  int slot = 0;      // 1 to MountFs::kSlotMax; its own
};

// Whether two numbers of a MountFs are of nodes in different mounts.
bool are_in_different_mounts(Inode a, Inode b);
// Whether this is the number of the root of a mount, or of a directory that only leads to one. False for the numbers of
// other filesystems, whatever they use these bits for.
bool is_mount_point(Inode node);

// As thread-safe as what is mounted. A unit ends on the thread that began it.
class MountFs final : public FileSystem {
 public:
  static constexpr int kSlotMax = 62;

  // kInvalid names the mount that cannot be.
  static Result<std::unique_ptr<MountFs>> make(FileSystem& root, const std::vector<Mount>& mounts, Clock& clock);
  ~MountFs() override;
  MountFs(const MountFs&) = delete;
  MountFs& operator=(const MountFs&) = delete;

  Result<std::unique_ptr<Unit>> begin(UnitAccess access) override;

  Result<Attributes> lookup(Inode parent, std::string_view name) override;
  Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) override;
  Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name) override;
  Status unlink(Inode parent, std::string_view name) override;
  Status remove_dir(Inode parent, std::string_view name) override;
  Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                RenameMode mode) override;
  Result<std::unique_ptr<DirStream>> open_dir(Inode dir) override;
  Result<std::vector<EntryName>> list_names_of(Inode node) override;

  Result<Attributes> get_attributes(Inode node) override;
  Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes) override;
  Result<std::string> read_link(Inode node) override;
  Status retain(Inode node) override;
  void forget(Inode node, std::uint64_t count) override;
  Result<Attributes> create(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> open(Inode node) override;
  void release(Inode node) override;

  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override;
  Status write(Inode node, std::uint64_t offset, Bytes data) override;
  Result<std::uint64_t> append(Inode node, Bytes data) override;
  Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) override;
  Result<std::uint64_t> seek_data(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> seek_hole(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                   std::uint64_t length) override;
  Result<Fd> open_backing(Inode node) override;
  void reserve_number(Inode node, std::uint64_t generation) override;
  Status flush(Inode node) override;
  Status sync(Inode node) override;  // of the root: everything mounted too

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats(Inode node) override;
  bool run_idle_work() override;
  Status listen(ChangeListener* listener) override;

 private:
  class Listener;
  class Stream;
  class MountUnit;
  struct ThreadUnits;

  struct Mounted {
    FileSystem* fs;
    int slot;
    std::size_t place;
    std::unique_ptr<Listener> listener;
  };

  // A directory on the way to a mount point, or a mount point. The first one is the root.
  struct Place {
    std::string name;
    std::size_t parent = 0;
    std::optional<std::size_t> mount;  // whose root is shown here
    std::size_t holder = 0;            // the mount that has the directory, if it exists
    std::vector<std::size_t> children;
    Attributes shown;                       // when it was last looked at; guarded by places_mutex_
    std::optional<std::uint64_t> shown_at;  // the holder's change mark then; guarded by places_mutex_
  };

  // A number taken apart.
  struct Node {
    std::size_t mount = 0;
    Inode inode;                          // in its own filesystem
    std::optional<std::size_t> stand_in;  // the place, if it exists in no filesystem; the others are unset then
  };

  explicit MountFs(Clock& clock);
  Status add(const Mount& mount);
  std::size_t make_place(std::size_t parent, std::string_view name);
  void find_holders();

  // Numbers.
  Result<Node> inward(Inode outer) const;                       // kStale
  Result<Node> to_change(Inode outer) const;                    // also kReadOnly for a stand-in
  Result<Node> with_content(Inode outer) const;                 // also kIsDirectory for a stand-in
  Result<Inode> outward(std::size_t mount, Inode inner) const;  // kCorrupt
  Result<Attributes> outward(std::size_t mount, Result<Attributes> attributes) const;
  FileSystem& fs(const Node& node) { return *mounts_[node.mount].fs; }

  // Places.
  Result<std::optional<std::size_t>> find_child(const Node& dir, std::string_view name);
  Result<bool> is_at(const Node& dir, std::size_t place);
  Result<std::optional<std::size_t>> find_place(const Node& dir);
  Result<Attributes> show(std::size_t place);
  Result<Attributes> look_at(std::size_t place);
  Attributes stand_in(std::size_t place) const;
  Attributes last_shown(std::size_t place) const;
  Status check_not_place(const Node& dir, std::string_view name, Code code);

  // Units.
  ThreadUnits* this_threads_units() const;
  Status enter(std::size_t mount, UnitAccess access);
  bool can_touch(std::size_t mount) const;

  // The common part of the calls that make a node.
  template <class Call>
  Result<Attributes> make_in(Inode parent, std::string_view name, const Call& call);
  Status check_same_mount(const Node& a, const Node& b) const;

  Timestamp created_;
  std::vector<Mounted> mounts_;  // the first is the root's
  std::vector<Place> places_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;  // places but the root
  std::array<std::optional<std::size_t>, kSlotMax + 1> by_slot_;
  mutable std::mutex places_mutex_;
};

}  // namespace warren
