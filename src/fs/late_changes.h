// EarlyChanges for a FileSystem that never acknowledges early, so that a caller needs only one code path.
#pragma once

#include "fs/file_system.h"

namespace warren {

class LateChanges final : public EarlyChanges {
 public:
  explicit LateChanges(FileSystem& fs) : fs_(fs) {}

  Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node,
                               const AcknowledgeNode&) override {
    return fs_.make_node(parent, name, node);
  }
  Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node,
                              const AcknowledgeNode&) override {
    return fs_.make_dir(parent, name, node);
  }
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner,
                                  const AcknowledgeNode&) override {
    return fs_.make_symlink(parent, name, target, owner);
  }
  Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name, const AcknowledgeNode&) override {
    return fs_.link(node, new_parent, new_name);
  }
  Status unlink(Inode parent, std::string_view name, const Acknowledge&) override { return fs_.unlink(parent, name); }
  Status remove_dir(Inode parent, std::string_view name, const Acknowledge&) override {
    return fs_.remove_dir(parent, name);
  }
  Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name, RenameMode mode,
                const Acknowledge&) override {
    return fs_.rename(parent, name, new_parent, new_name, mode);
  }
  Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes, const AcknowledgeNode&) override {
    return fs_.set_attributes(node, changes);
  }
  Status write(Inode node, std::uint64_t offset, Bytes data, const Acknowledge&) override {
    return fs_.write(node, offset, data);
  }

 private:
  FileSystem& fs_;
};

}  // namespace warren
