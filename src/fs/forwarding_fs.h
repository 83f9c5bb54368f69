// The base class of wrappers: passes every call on to another filesystem.
//
// A wrapper overrides the calls it is about and calls the base class to go on. Nothing is lost in a wrapper that was
// written before a call existed, because that call is passed on here.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fs/file_system.h"

namespace warren {

// As thread-safe as the filesystem inside, which outlives it.
class ForwardingFs : public FileSystem {
 public:
  explicit ForwardingFs(FileSystem& inner) : inner_(inner) {}

  Result<std::unique_ptr<Unit>> begin(UnitAccess access) override { return inner_.begin(access); }

  Result<Attributes> lookup(Inode parent, std::string_view name) override { return inner_.lookup(parent, name); }
  Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node) override {
    return inner_.make_node(parent, name, node);
  }
  Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node) override {
    return inner_.make_dir(parent, name, node);
  }
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) override {
    return inner_.make_symlink(parent, name, target, owner);
  }
  Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name) override {
    return inner_.link(node, new_parent, new_name);
  }
  Status unlink(Inode parent, std::string_view name) override { return inner_.unlink(parent, name); }
  Status remove_dir(Inode parent, std::string_view name) override { return inner_.remove_dir(parent, name); }
  Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                RenameMode mode) override {
    return inner_.rename(parent, name, new_parent, new_name, mode);
  }
  Result<std::unique_ptr<DirStream>> open_dir(Inode dir) override { return inner_.open_dir(dir); }

  Result<std::vector<EntryName>> list_names_of(Inode node) override { return inner_.list_names_of(node); }
  Result<Attributes> get_attributes(Inode node) override { return inner_.get_attributes(node); }
  Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes) override {
    return inner_.set_attributes(node, changes);
  }
  Result<std::string> read_link(Inode node) override { return inner_.read_link(node); }
  Status retain(Inode node) override { return inner_.retain(node); }
  void forget(Inode node, std::uint64_t count) override { inner_.forget(node, count); }
  Result<Attributes> create(Inode parent, std::string_view name, const NewNode& node) override {
    return inner_.create(parent, name, node);
  }
  Result<Attributes> open(Inode node) override { return inner_.open(node); }
  void release(Inode node) override { inner_.release(node); }

  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override {
    return inner_.read(node, offset, out);
  }
  Status write(Inode node, std::uint64_t offset, Bytes data) override { return inner_.write(node, offset, data); }
  Result<std::uint64_t> append(Inode node, Bytes data) override { return inner_.append(node, data); }
  Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) override {
    return inner_.allocate(node, mode, offset, length);
  }
  Result<std::uint64_t> seek_data(Inode node, std::uint64_t offset) override { return inner_.seek_data(node, offset); }
  Result<std::uint64_t> seek_hole(Inode node, std::uint64_t offset) override { return inner_.seek_hole(node, offset); }
  Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                   std::uint64_t length) override {
    return inner_.copy_range(from, from_offset, to, to_offset, length);
  }
  Result<Fd> open_backing(Inode node) override { return inner_.open_backing(node); }
  void reserve_number(Inode node, std::uint64_t generation) override { inner_.reserve_number(node, generation); }
  Status flush(Inode node) override { return inner_.flush(node); }
  Status sync(Inode node) override { return inner_.sync(node); }

  Result<std::string> get_xattr(Inode node, std::string_view name) override { return inner_.get_xattr(node, name); }
  Result<std::vector<std::string>> list_xattrs(Inode node) override { return inner_.list_xattrs(node); }
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override {
    return inner_.set_xattr(node, name, value, mode);
  }
  Status remove_xattr(Inode node, std::string_view name) override { return inner_.remove_xattr(node, name); }

  Result<FileSystemStats> stats(Inode node) override { return inner_.stats(node); }
  bool run_idle_work() override { return inner_.run_idle_work(); }
  std::optional<std::uint64_t> change_mark() override { return inner_.change_mark(); }
  std::uint64_t others_mark() override { return inner_.others_mark(); }
  Status listen(ChangeListener* listener) override { return inner_.listen(listener); }

 protected:
  FileSystem& inner() { return inner_; }

 private:
  FileSystem& inner_;
};

}  // namespace warren
