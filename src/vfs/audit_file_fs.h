// An agent's own tree with /audit/events.jsonl in it: the audit trail, one line of JSON for each event.
//
// The file grows by itself and cannot be changed, removed or replaced; a file of that name in the tree is covered. Its
// size is where the last event's line ends, and a read looks up only the rows that it returns.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "fs/forwarding_fs.h"
#include "store/record/audit_log.h"

namespace warren {

inline constexpr std::string_view kAuditFolder = "audit";
inline constexpr std::string_view kAuditFile = "events.jsonl";

// Thread-safe. The tree and the log outlive it.
class AuditFileFs final : public ForwardingFs {
 public:
  // No node of a tree has this number: below the bits that a tree of mounts uses, and above those in use.
  static constexpr Inode kInode{(std::uint64_t{1} << 55) + 1};

  AuditFileFs(FileSystem& tree, AuditLog& log, Clock& clock);

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
  // The trail has grown.
  void announce();

 private:
  class Stream;

  Result<bool> is_folder(Inode dir);
  Status check_place(Inode dir, std::string_view name);  // kReadOnly if it is the file's
  Result<Attributes> attributes();

  AuditLog& log_;
  const Timestamp opened_;
  std::mutex listener_mutex_;  // held while it is called, so that it can be removed safely
  ChangeListener* listener_ = nullptr;
};

}  // namespace warren
