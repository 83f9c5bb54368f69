// A view of a tree for one caller: refuses what its rights and the policy do not allow.
//
// Looking up a name and reading attributes are always allowed, since every other call needs them; content, listings and
// changes are not. A refusal is kDenied and names the path, the operation and what decided.
//
// Where a caller may only append, write() is allowed exactly at the end of the file, and nothing else changes content
// that exists: not truncation, renaming over it, removing it, clearing a range, or copying into it.
// A directory moves only to where the same rules hold for what is in it (kCrossDevice otherwise, so that mv copies file
// by file and each is judged). A file does not move from where it cannot be read to where it can (kCrossDevice), and
// gets a second name only where the same rights hold. A time to live deletes, so whoever sets one must be allowed to.
// The standard directories and the files of the policy are never symbolic links: none is made there, or followed.
//
// For another agent (Caller::grants) whatever it may not use does not exist: refusals are kNotFound, names that it has
// no right to are neither found nor listed, and directories on the way to what it was granted are only walked through.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "fs/forwarding_fs.h"
#include "vfs/caller.h"
#include "vfs/live_policy.h"
#include "vfs/path_table.h"

namespace warren {

enum class OtherNames : bool { kNo, kPossible };  // hard links

// Thread-safe. The tree, the policy and the clock outlive it.
class GuardFs final : public ForwardingFs {
 public:
  GuardFs(FileSystem& tree, LivePolicy& policy, Caller caller, Clock& clock);
  ~GuardFs() override;

  const Caller& caller() const { return caller_; }
  // For what returns content without reading the file here, as a query does.
  Result<bool> may_read(std::string_view path, OtherNames names);
  Result<bool> may(Rights::Operation operation, std::string_view path);   // by this name alone
  Status check_path(Rights::Operation operation, std::string_view path);  // kDenied says why not
  // Judges an operation on what is not a file but has a path for the policy, such as a key; also outside of the
  // caller's root. A change is counted, and what is stored measured, as those of files are.
  Status check_value(Rights::Operation operation, std::string_view path, std::uint64_t size_bytes = 0);
  // Whether the caller has any right to this node, rather than only walking through it.
  Result<bool> has_rights(Inode node);

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
  // None: a descriptor would outlive a change of the policy.
  Result<Fd> open_backing(Inode) override { return Fd(); }

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  // A change of the policy by another process is "everything changed", so that caches above ask again.
  Status listen(ChangeListener* listener) override;

 private:
  class Stream;
  class Listener;
  class Counted;

  using Current = LivePolicy::Current;

  // A call is judged by one policy, which check and check_in return.
  Result<Current> check(Inode node, Rights::Operation operation);
  Result<Current> check_in(Inode dir, std::string_view name, Rights::Operation operation);
  Status check_node(const Current& now, Inode node, Rights::Operation operation);
  Result<Rights> rights_of(const Current& now, Inode node);
  Status learn_all_names(Inode node);
  Status learn_place(Inode node, EntryName place);
  Result<std::optional<EntryName>> find_place_of(Inode dir);
  Status refuse(const Policy& policy, std::string_view path, Rights::Operation operation) const;
  static Status refuse(const Policy& policy, const Caller& caller, std::string_view path, Rights::Operation operation);
  Result<Counted> count_change(const Policy& policy);  // by the rate limit
  static Status check_size(const Policy& policy, std::uint64_t size);
  Status check_not_standard(std::string_view path) const;
  static Status check_moved_tree(const Policy& policy, std::string_view from, std::string_view to);
  Status check_file_moved(const Policy& policy, std::string_view from, std::string_view to) const;
  // kNotFound if it does not exist for this caller; kDenied outside of its root.
  Status check_shown(std::string_view path);
  bool sees_all() const { return !caller_.grants && caller_.root.empty(); }
  Status check_node_moved(const Policy& policy, const Attributes& node, std::string_view to);
  Error refuse_link(std::string_view path) const;
  Result<Attributes> learned(Result<Attributes> made, Inode parent, std::string_view name);

  LivePolicy& policy_;
  Caller caller_;
  Clock& clock_;
  PathTable table_;

  std::unique_ptr<Listener> listener_;

  std::mutex rate_mutex_;
  double tokens_ = 0;
  std::int64_t filled_at_ns_ = 0;
};

}  // namespace warren
