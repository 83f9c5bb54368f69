// The agent's filesystem: FileSystem over the rows of an agent file.
//
// Each call is one transaction, or part of the surrounding unit; it checks everything before it
// writes, so that a refused call has changed nothing. Counting a directory's subdirectories for its
// link count is O(entries) once; after that the count is kept up to date in memory, until
// another connection writes to the file. Rules and rows: docs/design/store.md.
//
// Thread-safe: every call takes the database's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/clock.h"
#include "db/database.h"
#include "db/transaction.h"
#include "fs/file_system.h"
#include "store/ciphers/file_ciphers.h"
#include "store/files/chunks.h"
#include "store/files/expiries.h"
#include "store/files/nodes.h"
#include "store/files/orphans.h"
#include "store/files/xattrs.h"
#include "store/tables/item_rows.h"

namespace warren {

class Store;

class SqliteFs final : public FileSystem {
 public:
  static Result<std::unique_ptr<SqliteFs>> open(Store& store);

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
  void release(Inode node) override { forget(node, 1); }

  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override;
  Status write(Inode node, std::uint64_t offset, Bytes data) override;
  Result<std::uint64_t> append(Inode node, Bytes data) override;
  Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) override;
  Result<std::uint64_t> seek_data(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> seek_hole(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                   std::uint64_t length) override;
  Status flush(Inode) override { return Ok{}; }
  Status sync(Inode node) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats(Inode node) override;
  Result<Fd> open_backing(Inode) override { return Fd(); }
  void reserve_number(Inode, std::uint64_t) override {}

  Status listen(ChangeListener* listener) override;
  bool run_idle_work() override;
  std::optional<std::uint64_t> change_mark() override;
  std::uint64_t others_mark() override;

  // For an overlay (fs/overlay/upper_layer.h).
  Result<Inode> adopt_copy(Inode parent, std::string_view name, const Attributes& as, std::string_view target);
  Status restore(Inode node, const Attributes& as);
  Status keep_nameless(Inode node);
  Status let_go(Inode node);

  // The root of the agent's second tree (store/files/namespace_tree.h). O(all entries), once.
  Result<std::optional<Inode>> find_namespace_root();  // kCorrupt: what the file names is not one
  Status make_namespace_root();                        // if there is none

  // Encrypted files (store/ciphers/file_ciphers.h). The key that encrypts a file; nullopt if it is not encrypted.
  Result<std::optional<std::int64_t>> find_content_key(Inode node);
  // Encrypts a file's content anew, with this key or, without one, not at all. A change like any other.
  Status recode(Inode node, std::optional<std::int64_t> key);
  FileCiphers* ciphers() { return ciphers_.get(); }  // null: no file is encrypted, nor will be

  // Removes nodes without a name that a crashed process left. Called once, when the store opens.
  Status collect_orphans();

  // Removes nodes without a name, or a part of one that is too large to remove while a program waits: those
  // that we had open, and those that others removed and nobody has open. False if there is none left. For the keeper's
  // idle time.
  Result<bool> collect_some();

  // Removes files whose time is over.
  Status remove_expired();
  // In milliseconds since 1970; nullopt if no file expires.
  Result<std::optional<std::int64_t>> next_expiry_ms();

  // Passes on the nodes without a name that others may still have open, and removes the rest. Before the store closes.
  Status leave();

  // Called in the transaction that removes a node that lost its name earlier: an overlay has rows for it.
  void when_collected(std::function<Status(Inode)> hook) { when_collected_ = std::move(hook); }

  // After other code has changed our tables on the same connection.
  void forget_rows();

  // Cached facts must match the rows: the store reports how each transaction ends.
  Status before_commit();
  void after_commit() { newly_nameless_.clear(); }
  void after_rollback();
  void after_undo();  // of a change in a batch
  // The latest changes of these nodes are lost: their next sync says so.
  void note_loss(const std::unordered_set<std::uint64_t>& nodes);

 private:
  friend class SqliteDirStream;

  // Facts that need a search, not just one row.
  struct DirectoryFacts {
    std::optional<Inode> parent;
    std::optional<std::uint32_t> subdirectories;
    bool is_large = false;  // too many entries to count
  };

  // A directory that is being read, and the names removed from it since, by entry id.
  struct OpenDir {
    int streams = 0;
    std::map<std::int64_t, std::string> removed;
  };

  explicit SqliteFs(Store& store);
  Result<Transaction> read_scope();
  Result<Transaction> write_scope();  // for changes that take little or no space
  Result<Transaction> growth_scope(std::uint64_t bytes);

  // Rows, with the errors the interface promises.
  Result<Attributes> get_row(Inode node);                             // kStale
  Result<Attributes> get_file_row(Inode node);                        // kIsDirectory, kInvalid
  Result<Attributes> get_content_row(Inode node);                     // also: kDenied, kCorrupt, if it is encrypted
  Result<Attributes> get_parent_row(Inode dir);                       // kStale, kNotDirectory, kNotFound when removed
  Result<Attributes> get_entry(Inode parent, std::string_view name);  // kNotFound

  // The row as stat shows it, with a directory's link count computed.
  Result<Attributes> shown(Attributes row);
  Result<std::optional<std::uint32_t>> count_subdirectories(Inode dir);
  Result<std::optional<Inode>> parent_of(Inode dir);
  DirectoryFacts& facts(Inode dir);
  void adopt(Inode parent, Inode dir);
  void shift_subdirectories(Inode parent, int by);
  Result<bool> is_within(Inode dir, Inode ancestor);

  Result<Attributes> insert_node(const Attributes& parent, std::string_view name, std::uint32_t mode, Owner owner,
                                 std::uint64_t rdev, std::uint64_t size);
  void add_nameless(std::unordered_set<Inode>& nodes, Inode node);
  std::size_t erase_nameless(std::unordered_set<Inode>& nodes, Inode node);
  std::int64_t now_ms() const { return clock_.now_us() / 1000; }
  Result<bool> has_expired();  // any file that is not removed yet
  Result<bool> is_expired(Inode node);
  void expire_first();          // before a change of names, so that expired ones are not in its way
  Status remove_expired_now();  // in the running write transaction
  Status remove_all_names(const Expiries::Due& due, Timestamp now);
  std::string path_for_record(const EntryName& entry);
  Result<std::string> path_of_dir(Inode dir);
  Result<ContentKey*> key_for_new(Inode parent, std::string_view name);  // null: it is not encrypted
  Result<std::optional<std::string>> find_key_name(Inode node);          // for kEncryptedXattr
  Result<std::optional<std::string>> find_xattr(Inode node, std::string_view name);
  Status set_expiry(Attributes row, Bytes value, XattrMode mode);
  Status check_new_name(const Attributes& parent, std::string_view name);
  Status drop_link(Attributes node, Timestamp now);
  Status erase_node(const Attributes& node);
  Status remember_removed(Inode parent, std::string_view name);
  Status remove_name(Inode parent, std::string_view name, const Attributes& entry, Timestamp now);
  Status replace(Inode parent, std::string_view name, const Attributes& old_entry, Inode new_parent,
                 std::string_view new_name, const std::optional<Attributes>& new_entry);
  Status exchange(Inode parent, std::string_view name, const Attributes& old_entry, Inode new_parent,
                  std::string_view new_name, const Attributes& new_entry);
  Status check_replaceable(const Attributes& old_entry, const Attributes& new_entry);

  Result<Attributes> check_changes(Inode node, const AttributeChanges& changes);
  Status write_row(Attributes& row, std::uint64_t offset, Bytes data);
  Status resize_row(Attributes& row, std::uint64_t size);
  Result<bool> shrink_step(Inode node, std::uint64_t size);
  Status shrink_in_steps(Inode node, std::uint64_t size);
  Result<bool> is_orphan(const Attributes& row);
  Status check_retainable(const Attributes& row);  // kStale
  void note_retained(Inode node);
  Status collect(Inode node);
  Result<bool> collect_step();
  Result<bool> has_other_keeper(Inode node);
  std::uint32_t next_keeper(Inode node, std::uint32_t after);
  Status pass_on(const Attributes& row, const std::optional<Orphan>& listed);
  Status give(Inode node, std::uint32_t seat);
  Status take_orphans();
  Result<bool> has_name(Inode node);
  Result<std::vector<Orphan>> list_abandoned();
  Status charge_size(const Attributes& row, std::uint64_t new_size);

  Store& store_;
  Database& database_;
  Clock& clock_;
  std::unique_ptr<Nodes> nodes_;
  std::unique_ptr<FileCiphers> ciphers_;  // null if there are no keys for files
  std::unique_ptr<Chunks> chunks_;
  std::unique_ptr<Xattrs> xattrs_;
  std::unique_ptr<Expiries> expiries_;
  std::unique_ptr<Orphans> orphans_;  // null when read-only
  std::unique_ptr<ItemRows> items_;   // likewise

  // Under the database's lock.
  std::unordered_map<Inode, std::uint64_t> retained_;
  std::unordered_set<Inode> lost_;        // nodes whose loss no sync has reported yet
  std::unordered_set<Inode> nameless_;    // nodes without a name that are ours to keep or to collect
  std::unordered_set<Inode> unlisted_;    // those of nameless_ not in wr_orphan yet; only in a batch
  std::vector<Inode> newly_nameless_;     // by the running transaction
  std::unordered_set<Inode> to_collect_;  // nameless and not retained: collect_some removes them
  std::function<Status(Inode)> when_collected_;
  std::unordered_map<Inode, DirectoryFacts> directories_;
  std::unordered_map<Inode, OpenDir> open_dirs_;
  std::unordered_map<Inode, std::string> dir_paths_;  // for patterns; until a directory is renamed
  std::uint64_t dir_paths_epoch_ = 0;
  std::optional<Inode> namespace_root_;  // once it was found
  std::uint64_t foreign_epoch_ = 0;
  Database::CommitMark seen_mark_{};
  std::uint64_t mark_number_ = 0;      // counts changes of seen_mark_
  std::uint64_t times_forgotten_ = 0;  // restores of a checkpoint, and rollbacks
};

}  // namespace warren
