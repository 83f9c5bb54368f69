// A mounted filesystem as a tree of its own: its numbers and those of the tree's root filesystem are swapped. So the
// conformance suite, which begins at kRootInode, tests what MountFs shows of a mount.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "fs/forwarding_fs.h"

namespace warren::testing {

class RebasedFs final : public ForwardingFs {
 public:
  RebasedFs(FileSystem& tree, Inode root) : ForwardingFs(tree), slot_bits_(root.value ^ kRootInode.value) {}

  Result<Attributes> lookup(Inode parent, std::string_view name) override {
    return swapped(inner().lookup(swapped(parent), name));
  }
  Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node) override {
    return swapped(inner().make_node(swapped(parent), name, node));
  }
  Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node) override {
    return swapped(inner().make_dir(swapped(parent), name, node));
  }
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) override {
    return swapped(inner().make_symlink(swapped(parent), name, target, owner));
  }
  Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name) override {
    return swapped(inner().link(swapped(node), swapped(new_parent), new_name));
  }
  Status unlink(Inode parent, std::string_view name) override { return inner().unlink(swapped(parent), name); }
  Status remove_dir(Inode parent, std::string_view name) override { return inner().remove_dir(swapped(parent), name); }
  Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                RenameMode mode) override {
    return inner().rename(swapped(parent), name, swapped(new_parent), new_name, mode);
  }
  Result<std::unique_ptr<DirStream>> open_dir(Inode dir) override {
    std::unique_ptr<DirStream> stream = WARREN_TRY(inner().open_dir(swapped(dir)));
    return std::unique_ptr<DirStream>(new Stream(*this, std::move(stream)));
  }

  Result<Attributes> get_attributes(Inode node) override { return swapped(inner().get_attributes(swapped(node))); }
  Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes) override {
    return swapped(inner().set_attributes(swapped(node), changes));
  }
  Result<std::string> read_link(Inode node) override { return inner().read_link(swapped(node)); }
  Status retain(Inode node) override { return inner().retain(swapped(node)); }
  void forget(Inode node, std::uint64_t count) override { inner().forget(swapped(node), count); }
  Result<Attributes> create(Inode parent, std::string_view name, const NewNode& node) override {
    return swapped(inner().create(swapped(parent), name, node));
  }
  Result<Attributes> open(Inode node) override { return swapped(inner().open(swapped(node))); }
  void release(Inode node) override { inner().release(swapped(node)); }

  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override {
    return inner().read(swapped(node), offset, out);
  }
  Status write(Inode node, std::uint64_t offset, Bytes data) override {
    return inner().write(swapped(node), offset, data);
  }
  Result<std::uint64_t> append(Inode node, Bytes data) override { return inner().append(swapped(node), data); }
  Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) override {
    return inner().allocate(swapped(node), mode, offset, length);
  }
  Result<std::uint64_t> seek_data(Inode node, std::uint64_t offset) override {
    return inner().seek_data(swapped(node), offset);
  }
  Result<std::uint64_t> seek_hole(Inode node, std::uint64_t offset) override {
    return inner().seek_hole(swapped(node), offset);
  }
  Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                   std::uint64_t length) override {
    return inner().copy_range(swapped(from), from_offset, swapped(to), to_offset, length);
  }
  Status flush(Inode node) override { return inner().flush(swapped(node)); }
  Status sync(Inode node) override { return inner().sync(swapped(node)); }

  Result<std::string> get_xattr(Inode node, std::string_view name) override {
    return inner().get_xattr(swapped(node), name);
  }
  Result<std::vector<std::string>> list_xattrs(Inode node) override { return inner().list_xattrs(swapped(node)); }
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override {
    return inner().set_xattr(swapped(node), name, value, mode);
  }
  Status remove_xattr(Inode node, std::string_view name) override { return inner().remove_xattr(swapped(node), name); }
  Result<FileSystemStats> stats(Inode node) override { return inner().stats(swapped(node)); }

 private:
  class Stream final : public DirStream {
   public:
    Stream(RebasedFs& fs, std::unique_ptr<DirStream> inner) : fs_(fs), inner_(std::move(inner)) {}
    Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
      std::vector<DirEntry> page = WARREN_TRY(inner_->read(cookie, max, detail));
      for (DirEntry& entry : page) {
        entry.inode = fs_.swapped(entry.inode);
        if (entry.attributes) entry.attributes->inode = entry.inode;
      }
      return page;
    }

   private:
    RebasedFs& fs_;
    std::unique_ptr<DirStream> inner_;
  };

  Inode swapped(Inode node) const { return Inode{node.value == 0 ? 0 : node.value ^ slot_bits_}; }
  Result<Attributes> swapped(Result<Attributes> result) const {
    Attributes found = WARREN_TRY(std::move(result));
    found.inode = swapped(found.inode);
    return found;
  }

  std::uint64_t slot_bits_;
};

}  // namespace warren::testing
