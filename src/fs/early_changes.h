// Changes that are acknowledged before they are carried out.
//
// A program that waits for an answer need not wait for all of the work. `acknowledge` is called as soon as only the
// disk can make the change fail; the rest is done while the program continues. If the disk does fail, the change is
// lost like any unsynced change, and the next sync reports it. If `acknowledge` is not called (for example because each
// change is committed on its own), the return value is the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "fs/types.h"

namespace warren {

using Acknowledge = std::function<void()>;
using AcknowledgeNode = std::function<void(const Attributes&)>;

// Each method does what its namesake in FileSystem does.
class EarlyChanges {
 public:
  virtual ~EarlyChanges() = default;

  virtual Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node,
                                       const AcknowledgeNode& acknowledge) = 0;
  virtual Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node,
                                      const AcknowledgeNode& acknowledge) = 0;
  virtual Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner,
                                          const AcknowledgeNode& acknowledge) = 0;
  virtual Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name,
                                  const AcknowledgeNode& acknowledge) = 0;
  virtual Status unlink(Inode parent, std::string_view name, const Acknowledge& acknowledge) = 0;
  virtual Status remove_dir(Inode parent, std::string_view name, const Acknowledge& acknowledge) = 0;
  virtual Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                        RenameMode mode, const Acknowledge& acknowledge) = 0;
  virtual Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes,
                                            const AcknowledgeNode& acknowledge) = 0;
  virtual Status write(Inode node, std::uint64_t offset, Bytes data, const Acknowledge& acknowledge) = 0;
};

}  // namespace warren
