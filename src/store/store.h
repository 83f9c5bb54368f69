// An open agent file: its filesystem, key-value store and tool-call trail over one connection.
//
// Thread-safe. Several processes may have an agent open at the same time; each sees the others' commits.
// Destroying the last open Store leaves a single file behind (no -wal, no -shm).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"
#include "db/transaction.h"
#include "fs/change_listener.h"
#include "store/record/journal.h"
#include "store/schema.h"
#include "store/tree.h"
#include "store/undo_log.h"

namespace warren {

class AuditLog;
class ContentKeys;
class Keeper;
class KeyValue;
class SqliteFs;
class ToolCalls;
class Usage;

struct StoreOptions {
  OpenMode mode = OpenMode::kReadWrite;
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;  // kGrouped for a mount: batches of filesystem changes
  std::uint32_t chunk_bytes = 4096;  // of a file being created
  // The agent as it was then (store/history/history.h), for reading by the thread that opened it.
  std::optional<std::int64_t> checkpoint;
  SharedDatabaseKey key = {};  // encrypts a file being created
  KeyFinder find_key = {};     // of an existing file, if it is encrypted
  // For files whose content is encrypted by patterns. Without their keys they can be listed, moved and removed.
  std::function<Result<std::string>(std::string_view salt)> find_content_key = {};
  JournalAuthor author = {};  // of what is changed through this store
  const char* vfs = nullptr;  // tests: a disk that fails
};

class Store final : private TransactionObserver {
 public:
  // kNotFound, kExists (creating), kCorrupt (empty, foreign or damaged: the file is not changed).
  // A file of an older schema opens read-only (is_read_only); `migrate` updates it.
  // kDenied if it is encrypted and there is no key.
  static Result<std::unique_ptr<Store>> open(const std::string& path, const StoreOptions& options, Clock& clock);
  // Does not report what could not be stored, and rescues nothing: a store with grouped commits is closed with close().
  ~Store() override;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Stores the rest and ends the threads; call nothing afterwards. An error says what is lost and why. If the agent
  // file was deleted, moved or replaced while it was in use, all of its content is written to a new file beside it;
  // the error (kStale) names it.
  Status close();

  SqliteFs& fs() { return *fs_; }
  KeyValue& kv() { return *kv_; }
  ToolCalls& tools() { return *tools_; }
  AuditLog& audit() { return *audit_; }

  // Combines several calls: everything between begin and commit is committed together, or nothing is.
  Result<Transaction> begin_write() { return Transaction::begin(*database_, Access::kWrite); }

  const Schema& schema() const { return schema_; }
  bool is_read_only() const { return database_->is_read_only(); }
  const std::string& path() const { return database_->path(); }
  Database& database() { return *database_; }
  Clock& clock() { return clock_; }

  Journal* journal() { return journal_.get(); }  // null when read-only
  Usage& usage() { return *usage_; }
  ContentKeys* content_keys() { return content_keys_.get(); }  // null: no file is encrypted by a pattern
  UndoLog& undo() { return undo_; }

  // How often rows were rolled back: a cache of rows is out of date when it changes.
  std::uint64_t rollbacks() const { return rollbacks_; }

  void make_room();                                     // before a large write, without the database's lock
  void has_work(std::chrono::milliseconds delay = {});  // SqliteFs::collect_some has work

  // For files and keys that expire: the keeper looks when the next one is due, and its listener learns what was
  // removed.
  void expiry_changed();
  void expired(Inode parent, std::string_view name);

  // After other code has replaced rows of any table on this connection, and has committed that.
  void rows_replaced();

  // The agent has checkpoints now: each commit from here on leaves a row in the journal. Under the database's lock.
  void keep_history() { keeps_history_ = true; }

  // Calls `call` from a thread of its own after rows were added to the audit trail, by whomever; an empty one stops
  // that. Only with grouped commits.
  void when_audited(std::function<void()> call);

  // See FileSystem::listen; each tree has one listener, which also gets the changes of the other tree. Only with
  // grouped commits; otherwise kUnsupported.
  Status listen(Tree tree, ChangeListener* listener);

  Status backup_to(const std::string& path) { return database_->backup_to(path); }

 private:
  Store(std::unique_ptr<Database> database, Clock& clock);
  Status assemble(const StoreOptions& options);
  void seal();
  Status remove_expired();
  Result<bool> run_deferred_work();
  Result<std::optional<std::int64_t>> next_expiry_ms();
  Status report_lost(const Error& why);
  Status rescue(const Error& why);
  Status before_commit() override;
  void after_commit() override;
  void after_rollback() override;
  void batch_opened() override;
  void change_began() override;
  void change_done() override;
  void change_refused() override;
  void change_undone() override;

  std::unique_ptr<Clock> past_clock_;  // of a checkpoint
  Clock& clock_;
  std::uint64_t rollbacks_ = 0;             // under the database's lock
  bool keeps_history_ = false;              // there are checkpoints; under the database's lock
  std::int64_t changes_committed_ = 0;      // Database::total_changes at the last commit; under its lock
  int known_losses_ = 0;                    // Database::lost_batches; under its lock
  std::unordered_set<std::uint64_t> lost_;  // nodes whose accepted changes are gone; under the database's lock
  UndoLog undo_;
  std::unique_ptr<Database> database_;    // declared before everything that has statements of it
  std::optional<Transaction> past_view_;  // of a checkpoint, which may be removed meanwhile
  Schema schema_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Usage> usage_;
  std::unique_ptr<ContentKeys> content_keys_;
  std::unique_ptr<SqliteFs> fs_;
  std::unique_ptr<KeyValue> kv_;
  std::unique_ptr<ToolCalls> tools_;
  std::unique_ptr<Keeper> keeper_;  // null without grouped commits
  bool is_closed_ = false;
};

}  // namespace warren
