// A filesystem over a blob store: a file is a value, its path the key.
//
// Directories follow from the keys below them. An empty one, and one that was made or emptied here, has a value named
// kDirMarker in it, which is not shown; the name cannot be used. If a key is both a value and the folder of others, the
// file is shown.
//
// Writing. What is written is gathered in memory and put whole, at the latest two seconds later: by flush (a program
// closes the file), by sync, and at the end of a unit. Only these report success: a change that could not be put is an
// error of flush or sync, and stays to be put later unless the store refuses it for good. A put is conditional on the
// version that was changed, so of two writers the later gets kConflict and its change is dropped; what was only
// appended is appended again to what the other one wrote. Stores without conditional puts: the last one wins, of
// changes to a file that is there. A file expires as fs/expiry.h says, if the store can do that.
//
// Within a unit the values that were seen stay the same, or the unit fails with kConflict; a file that it saw is
// removed only as it saw it. A unit puts its files one after the other; without commit() nothing was put.
//
// Not supported: links, special files and other extended attributes (kUnsupported); modes and owners are the same for
// all files, times are those of the store, and setting times has no effect. A file is renamed by a put and a removal of
// the version that was put: at once, if the store has whole batches and conditional removals. A store without the
// latter is asked for the version just before the removal, and a write in between is lost. A directory is not renamed
// (kCrossDevice, so that mv copies). A file that was removed is kStale also
// for programs that have it open. A file is at most BlobAbilities::largest bytes (kTooLarge). Changes by others are
// seen when a node is looked at again; there are no notices.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "fs/file_system.h"

namespace warren {

struct BlobFsOptions {
  Owner owner;  // of everything
  std::chrono::milliseconds write_back{2'000};
  std::uint64_t gathered_bytes = std::uint64_t{256} << 20;  // beyond this, a write puts its file at once
  std::size_t nodes = 100'000;                              // known ones that nobody holds
};

// Thread-safe. Store and clock outlive it. Inode numbers stay the same while a node is known.
class BlobFs final : public FileSystem {
 public:
  static constexpr std::string_view kDirMarker = ".warren-dir";

  BlobFs(BlobStore& store, Clock& clock, BlobFsOptions options = {});
  ~BlobFs() override;  // puts what is gathered; sync() before to learn of failures
  BlobFs(const BlobFs&) = delete;
  BlobFs& operator=(const BlobFs&) = delete;

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
  Result<Fd> open_backing(Inode) override { return Fd(); }
  void reserve_number(Inode, std::uint64_t) override {}
  Status flush(Inode node) override;
  Status sync(Inode node) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats(Inode node) override;
  bool run_idle_work() override { return false; }
  Status listen(ChangeListener* listener) override;

 private:
  class BlobUnit;
  class Stream;

  // Content that differs from the store's.
  struct Gathered {
    std::string content;
    std::optional<std::string> version;   // that it replaces; unset: there was no value
    std::optional<Timestamp> expires;     // of the value that it replaces
    std::optional<std::size_t> appended;  // everything after this offset was appended, and nothing else changed
    bool is_in_doubt = false;             // a put failed, and may have happened
    Timestamp modified;
    std::int64_t since_ns = 0;
    std::optional<std::thread::id> unit;  // the thread whose unit made the file; only the end of the unit puts it
  };

  struct Node {
    Inode inode;
    bool is_dir = false;

    // Under nodes_mutex_.
    Inode parent;
    std::string name;
    std::string key;  // "" for the root
    std::uint64_t retained = 0;
    std::uint64_t streams = 0;  // of a directory
    bool is_removed = false;
    bool has_marker = false;
    bool is_new = false;                                 // made in a unit, and not in the store yet
    std::map<std::string, Inode, std::less<>> children;  // that are known

    std::mutex busy;  // taken before nodes_mutex_; held while the store is asked
    std::optional<Gathered> gathered;
    std::optional<Error> failure;  // of a put that nobody waited for
  };
  using NodePtr = std::shared_ptr<Node>;  // held by the table and by calls under way
  using Busy = std::unique_lock<std::mutex>;

  // What one thread's unit has seen and changed.
  struct UnitState {
    int depth = 0;
    bool has_failed = false;       // an inner unit was not committed
    std::map<Inode, Blob> seen;    // with the first bytes of the value
    std::vector<NodePtr> changed;  // that had nothing gathered before
    std::set<Inode> made;          // new files
  };

  Result<BlobStore*> reach();  // the store; kBusy in a thread that must not wait
  UnitState* this_threads_unit();

  // Nodes.
  Result<NodePtr> get_node(Inode inode);
  Result<NodePtr> get_dir(Inode inode);
  Result<NodePtr> get_file(Inode inode);
  std::string key_of(const NodePtr& node);
  std::string prefix_of(const NodePtr& dir);
  NodePtr find_known(const NodePtr& dir, std::string_view name);
  NodePtr remember(const NodePtr& dir, std::string_view name, bool is_dir);
  void mark_removed(const NodePtr& node);
  void sweep();
  Result<NodePtr> get_child(const NodePtr& dir, std::string_view name, Attributes* attributes);
  Result<bool> has_keys_below(const std::string& prefix);
  Result<std::optional<BlobInfo>> look_up_value(const NodePtr& node);
  Result<std::string> new_key(const NodePtr& dir, std::string_view name, std::string_view below);
  Result<BlobInfo> put_new(const std::string& key);
  PutOptions put_options_of(std::optional<Timestamp> expires);
  Status keep_dir(const NodePtr& dir);
  Result<Attributes> make_file(const NodePtr& dir, std::string_view name);
  Result<bool> remove_version(const std::string& key, const std::string& version);
  Status move_version(const Blob& blob, const std::string& to, PutOptions options, std::optional<std::string>& made);
  Status rename_file(const NodePtr& node, const NodePtr& to_dir, std::string_view new_name, RenameMode mode);
  void move_node(const NodePtr& node, const NodePtr& to_dir, std::string_view new_name);
  Attributes dir_attributes(const Node& node) const;
  Attributes file_attributes(const Node& node, std::uint64_t size, Timestamp modified) const;
  Attributes file_attributes(const Node& node, const BlobInfo& info) const;

  // Content.
  enum class OldContent { kNeeded, kDropped };
  Status gather(const NodePtr& node, OldContent old_content);  // busy is held
  Status changed(const NodePtr& node, Busy& busy);
  Result<std::optional<Timestamp>> find_expiry_of(const NodePtr& node);
  Status change_expiry(const NodePtr& node, std::optional<Timestamp> expires);
  Status put_gathered(const NodePtr& node);  // busy is held
  Result<bool> settle_conflict(const std::string& key, Gathered& gathered);
  static bool is_of_another_unit(const Node& node);  // what it has gathered is another thread's new file
  void drop_gathered(Node& node);
  Status store_node(const NodePtr& node);
  void resize(Gathered& gathered, std::uint64_t size);
  void wait_for_writer(const NodePtr& node);
  std::vector<NodePtr> waiting_nodes();
  Status check_size(std::uint64_t offset, std::uint64_t length) const;
  Status end_unit(UnitState& unit);
  void abandon_unit(UnitState& unit);
  void write_back();

  BlobStore& store_;
  Clock& clock_;
  const BlobFsOptions options_;
  const BlobAbilities abilities_;
  const Timestamp opened_;

  std::mutex nodes_mutex_;
  std::unordered_map<Inode, NodePtr> nodes_;
  std::uint64_t next_inode_ = 3;
  std::size_t sweep_at_;
  std::set<Inode> waiting_;  // have content gathered outside a unit, or a failure

  std::mutex units_mutex_;
  std::map<std::thread::id, UnitState> units_;

  std::atomic<std::uint64_t> gathered_bytes_ = 0;

  std::mutex writer_mutex_;
  std::condition_variable writer_wakes_;
  bool is_ending_ = false;  // under writer_mutex_
  std::thread writer_;      // from the first change on; under writer_mutex_
};

}  // namespace warren
