// Changes whose outcome is told before they are done.
//
// A program that waits for an answer need not wait for all of the work behind it. `told` is called as soon as nothing
// but the disk can keep the change from coming about, and the rest is done while the program goes on. If the disk does
// keep it, it is lost as everything that was not synced yet: the next sync says so. Where `told` was not called, as
// where each change is committed alone, what the call returns is the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "fs/types.h"

namespace warren {

using Told = std::function<void()>;
using ToldNode = std::function<void(const Attributes&)>;

// Each as in FileSystem.
class EarlyChanges {
 public:
  virtual ~EarlyChanges() = default;

  virtual Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node,
                                       const ToldNode& told) = 0;
  virtual Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node,
                                      const ToldNode& told) = 0;
  virtual Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner,
                                          const ToldNode& told) = 0;
  virtual Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name, const ToldNode& told) = 0;
  virtual Status unlink(Inode parent, std::string_view name, const Told& told) = 0;
  virtual Status remove_dir(Inode parent, std::string_view name, const Told& told) = 0;
  virtual Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                        RenameMode mode, const Told& told) = 0;
  virtual Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes, const ToldNode& told) = 0;
  virtual Status write(Inode node, std::uint64_t offset, Bytes data, const Told& told) = 0;
};

}  // namespace warren
