// The rows of names and nodes: fs_inode, fs_dentry, fs_symlink. Only rows; SqliteFs has the rules.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "store/files/expiries.h"
#include "store/files/node_cache.h"
#include "store/schema.h"
#include "store/undo_log.h"
#include "store/write_back.h"

namespace warren {

// Use it inside a transaction. Old schemas are read through statements of their own; writing needs the
// current one. Rows read recently are cached: the first call in each transaction asks SQLite
// whether another connection has written since, and drops the cache if so. Code that changes these tables
// on this connection in any other way calls forget_rows.
//
// While a batch is open (Commits::kGrouped), rows are changed and created in memory only, and written once by
// write_back before the batch is committed: a file that is created, written and chmodded costs one row and
// one entry, and one that is removed before then costs nothing. Every function here sees the kept rows.
class Nodes {
 public:
  static Result<std::unique_ptr<Nodes>> open(Database& database, const Schema& schema, UndoLog& undo);

  // `nlink` is as stored.
  Result<std::optional<Attributes>> find(Inode node);
  // The node of a name; kCorrupt if the node does not exist.
  Result<std::optional<Attributes>> find_entry(Inode parent, std::string_view name);

  Result<Inode> insert(const Attributes& node);  // its inode number is ignored: the row gets a new one
  Status update(const Attributes& node);
  Status touch(Inode node, Timestamp now);  // mtime and ctime
  Status erase(const Attributes& node);

  Status insert_entry(Inode parent, std::string_view name, Inode node);
  Status move_entry(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name);
  Status retarget_entry(Inode parent, std::string_view name, Inode node);
  Status erase_entry(Inode parent, std::string_view name);

  Result<bool> has_entries(Inode dir);
  // nullopt if the directory has more than `entries_max` entries; then not all of them are read.
  Result<std::optional<std::uint32_t>> count_subdirectories(Inode dir, std::uint64_t entries_max);
  Result<std::uint32_t> count_entries_of(Inode node);          // O(all entries): there is no index by node
  Result<std::vector<EntryName>> list_entries_of(Inode node);  // O(all entries) twice, then O(1) until a name changes
  std::uint64_t seen_epoch() const { return foreign_epoch_; }  // of the last transaction that read nodes
  std::optional<EntryName> recent_entry_of(Inode node);        // one that was used recently; O(cached entries)
  Result<std::optional<Inode>> find_parent(Inode dir);         // O(all entries)
  Result<std::uint64_t> count();                               // nodes: O(nodes) once, then remembered

  // Entries whose names sort after `after`, by bytes. Names need only the index; types also read
  // the row of each entry's node, and attributes all of its columns.
  Result<std::vector<DirEntry>> list(Inode dir, std::string_view after, std::size_t max, DirDetail detail);
  Result<std::optional<std::string>> find_name(Inode dir, std::int64_t entry_id);
  Result<std::optional<std::int64_t>> find_entry_id(Inode dir, std::string_view name);  // nullopt if only kept

  Result<std::string> get_target(Inode symlink);  // kCorrupt if it has none
  Status set_target(Inode symlink, std::string_view target);

  Status write_back();
  // Writes back one row or entry that has not changed lately. False if there is none.
  Result<bool> write_back_one();
  void forget_rows();   // also after a rollback
  void forget_cache();  // after a change was undone

 private:
  Status prepare(Database& database, const Schema& schema);
  Status refresh();
  Statement& list_statement(DirDetail detail);
  Result<Inode> take_inode();
  Status keep(const Attributes& node);
  void remember_for_undo(Inode node);
  void remember_for_undo(Inode parent, std::string_view name);
  Status keep_entry(Inode parent, std::string_view name, std::optional<Inode> now, bool is_stored);
  Status write_back_nodes();
  Result<bool> write_back_one_node();
  Result<bool> write_back_one_entry();
  Status gather_entries();
  void forget_gathered();
  Status write_back_entries(Inode parent);
  Status write_back_entries();

  // A row that is not in the file yet, or only in an older state.
  struct Kept {
    Attributes row;
    bool is_new = false;
    std::uint64_t changed = 0;  // changes_ at its last change
  };

  // The node that a name has now, nullopt if the name was removed; and whether the file has a row for the name.
  struct KeptEntry {
    std::optional<Inode> now;
    bool is_stored = false;
    std::uint64_t changed = 0;  // changes_ at its last change
  };
  using EntryKey = std::pair<Inode, std::string>;  // parent and name
  using KeptDirectory = std::map<std::string, KeptEntry, std::less<>>;
  Status write_back_entry(Inode parent, std::string_view name, const KeptEntry& entry);
  Status write_back_node(const Kept& kept);
  const KeptEntry* find_kept_entry(Inode parent, std::string_view name) const;

  static constexpr std::uint64_t kSettledAfter = 64;
  static constexpr std::size_t kGatheredMax = 500'000;  // about 50 MB

  Database* database_ = nullptr;
  UndoLog* undo_ = nullptr;
  NodeCache cache_;
  std::unordered_map<Inode, KeptDirectory> kept_entries_;  // by parent; only while a batch is open
  std::unordered_map<Inode, Kept> kept_;                   // only while a batch is open
  WriteBackQueue<Inode> kept_queue_{kSettledAfter};
  WriteBackQueue<EntryKey> kept_entry_queue_{kSettledAfter};
  std::uint64_t changes_ = 0;                // to kept rows and entries
  std::uint64_t numbered_transaction_ = 0;   // the one that next_inode_ is good for
  std::uint64_t next_inode_ = 0;             // 0: SQLite counts, since there was no batch yet
  std::optional<std::uint64_t> node_count_;  // as of foreign_epoch_
  // The entries of directories and of files with several names, which a second search gathers.
  std::optional<std::unordered_map<Inode, std::vector<EntryName>>> gathered_;
  bool has_searched_entries_ = false;  // since a name has changed
  std::uint64_t checked_transaction_ = 0;
  std::uint64_t foreign_epoch_ = 0;
  Statement find_;
  Statement find_entry_;
  Statement insert_;
  Statement insert_numbered_;
  Statement last_inode_;
  Statement update_;
  Statement touch_;
  Statement erase_;
  Statement insert_entry_;
  Statement move_entry_;
  Statement retarget_entry_;
  Statement erase_entry_;
  Statement has_entries_;
  Statement count_subdirectories_;
  Statement count_entries_of_;
  Statement list_entries_of_;
  Statement gather_entries_;
  Statement find_parent_;
  Statement count_nodes_;
  Statement list_names_;
  Statement list_types_;
  Statement list_attributes_;
  Statement find_name_;
  Statement find_entry_id_;
  Statement get_target_;
  Statement set_target_;
  Statement erase_target_;
};

}  // namespace warren
