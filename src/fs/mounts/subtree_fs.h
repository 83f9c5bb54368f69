// A directory of a filesystem as a tree of its own: that directory is the root, and nothing above it can be reached.
//
// Only the root's number is translated. All others are the filesystem's own, so a caller must not bring numbers from
// outside the directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fs/forwarding_fs.h"

namespace warren {

// As thread-safe as the filesystem inside, which outlives it.
class SubtreeFs : public ForwardingFs {
 public:
  SubtreeFs(FileSystem& inner, Inode root);  // an existing directory that stays
  ~SubtreeFs() override;
  SubtreeFs(const SubtreeFs&) = delete;
  SubtreeFs& operator=(const SubtreeFs&) = delete;

  // How many calls have changed something through this object.
  std::uint64_t changes() const { return changes_; }

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
  Status sync(Inode node) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats(Inode node) override;
  Status listen(ChangeListener* listener) override;

 protected:
  // Registers a listener with the filesystem inside.
  virtual Status listen_inside(ChangeListener* listener) { return inner().listen(listener); }

 private:
  class Listener;

  Inode inside(Inode node) const { return node == kRootInode ? root_ : node; }
  Result<Attributes> outside(Result<Attributes> found) const;
  // A number of the filesystem inside; `known` is what earlier calls found out.
  Result<bool> is_below_root(Inode dir, std::unordered_map<Inode, bool>& known);
  template <class R>
  R counted(R result);

  Inode root_;
  std::atomic<std::uint64_t> changes_ = 0;
  std::unique_ptr<Listener> listener_;
};

}  // namespace warren
