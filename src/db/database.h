// One connection to one SQLite file: the only way the rest of Warren uses SQLite.
//
// The file is in WAL mode, so that other processes can read and write while we have it open, and the
// last clean close leaves a single file. Errors carry the path and, where we know, what to do.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "db/batch.h"
#include "db/cipher.h"
#include "db/named_file.h"
#include "db/sql.h"
#include "db/statement.h"

struct sqlite3;

namespace warren {

class WalSignals;
class WalVfs;
enum class Access;

enum class OpenMode {
  kReadOnly,
  kReadWrite,  // must exist
  kCreate,     // must not exist
  kDraft,      // an empty file that nobody else uses: without a log, so after an error it is worthless
  kImmutable,  // for reading; nobody writes to it, and it has no log. Creates no files beside it
};

// What a commit survives. In both cases a commit is all or nothing.
enum class Durability {
  kPower,    // the disk has it when commit returns: a power cut loses nothing
  kProcess,  // the system has it: a killed process loses nothing; sync() makes it survive a power cut
};

enum class Commits {
  kEach,     // each transaction is committed on its own
  kGrouped,  // shared transactions are committed together in a batch; see Access. Not durable before sync()
};

// Whether a reader may create temporary tables, which are not stored in the file.
enum class TempTables { kNo, kYes };
enum class Checkpoints { kByCommits, kByOwner };  // kByOwner: only by checkpoint(); log_pages() shows when

// Whether a file without a key may be copied into one with a key, by write_anew(). Every page then takes a detour.
enum class Conversion { kNo, kPossible };

// What a backup is made of. A damaged database is copied as it is, before a repair.
enum class CopyOf { kSound, kDamaged };

struct DatabaseOptions {
  OpenMode mode = OpenMode::kReadWrite;
  TempTables temp_tables = TempTables::kNo;
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;
  std::uint32_t page_bytes = 4096;  // of a file being created
  std::int64_t cache_bytes = std::int64_t{16} << 20;
  std::int64_t log_bytes = 0;  // size at which a commit checkpoints the log; 0: SQLite's 1,000 pages
  Checkpoints checkpoints = Checkpoints::kByCommits;
  std::chrono::milliseconds busy_wait = limits::kBusyWait;
  SharedDatabaseKey key = {};  // encrypts a file being created
  KeyFinder find_key = {};     // of an existing file that is encrypted. Without it, opening one fails with kDenied
  Conversion conversion = Conversion::kNo;
  const char* vfs = nullptr;  // tests: a disk that fails
};

// Space inside the file; read in the same view as the rest of a transaction.
struct DatabaseSize {
  std::uint64_t page_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;  // without the free list
};

// Notified of the outermost write transactions of a connection. before_commit may still write; if it fails,
// the transaction is rolled back. after_rollback is called only if rows had been changed.
//
// In a batch, each shared write is a change: it begins, and then it is done or undone. To undo it, the database takes
// back its statements, and the observer restores what it keeps in memory.
class TransactionObserver {
 public:
  virtual ~TransactionObserver() = default;
  virtual Status before_commit() = 0;
  virtual void after_commit() = 0;
  virtual void after_rollback() = 0;
  virtual void batch_opened() {}
  virtual void change_began() {}
  virtual void change_done() {}
  virtual void change_refused() {}  // before it changed anything; rows kept by earlier changes may have been written
  virtual void change_undone() {}
};

// Thread-safe where lock() is held: one thread at a time uses the connection. The lock is held
// across disk access on purpose: it serialises the connection.
class Database {
 public:
  // ":memory:" gives a private database that disappears with the object.
  static Result<std::unique_ptr<Database>> open(const std::string& path, const DatabaseOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Result<Statement> prepare(Sql sql);
  Result<Statement> prepare(const JoinedSql& sql);
  Result<Statement> prepare(UserSql sql);  // exactly one statement
  Status execute(Sql sql);                 // any number of statements, no values
  Status execute(const JoinedSql& sql);

  std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }
  std::unique_lock<std::recursive_mutex> try_lock() { return std::unique_lock(mutex_, std::try_to_lock); }

  const std::string& path() const { return path_; }
  const SharedDatabaseKey& key() const { return key_; }  // null: not encrypted
  KeyFinder key_finder() const;                          // finds the same one, for a second connection
  bool is_read_only() const { return read_only_; }
  std::int64_t last_insert_id() const;
  std::int64_t changes() const;        // rows the last statement changed
  std::int64_t total_changes() const;  // rows changed since the connection was opened, or kept back by a batch

  // Changes when another connection, of any program, has committed: a cache of rows is then out of date.
  // Call inside a transaction, after its first statement. No I/O.
  std::uint64_t foreign_epoch();

  // Makes SQLite read the state of the file if nothing in the transaction has yet: before foreign_epoch().
  Status look();

  // A fingerprint that changes on any commit, of any program: while it stays the same, rows that were read are
  // current. nullopt if unknown, as inside a transaction of ours. No I/O.
  using CommitMark = std::array<std::byte, 48>;
  std::optional<CommitMark> find_commit_mark();

  // A running count of the commits by other connections, of any program; it wraps around, so only differences matter.
  // Under the lock, a view that begins between two equal counts contains exactly those commits. nullopt if unknown, as
  // without grouped commits. No I/O.
  std::optional<std::uint32_t> count_foreign_commits() const;

  // Numbers the commits to the file, by any program, for as long as Warren can follow them: each gets the next number,
  // also across closing and opening, if the last connection of ours was sealed with seal_commits() and the file was not
  // written since. Otherwise the numbers start anew, at random. Call once, before the first transaction.
  void number_commits();
  // In a write transaction: the number that its commit gets. In a read transaction that began while nobody wrote: the
  // number of the next commit. nullopt without a log, as in memory.
  std::optional<std::int64_t> next_commit_number() const;
  // Before closing: records outside the database which commit the file contains, so that the numbers can go on. Does
  // nothing if another connection of ours may still write, and where that cannot be known for certain.
  void seal_commits();

  // A different number for each outermost transaction, for data that is valid for the length of one.
  std::uint64_t transaction_number() const { return transaction_number_; }
  bool is_in_transaction() const { return depth_ > 0; }        // under the lock: this thread's
  bool is_in_write() const { return depth_ > 0 && writing_; }  // the same, for one that may write

  Result<DatabaseSize> size();

  // Makes every commit survive a power cut, whatever the durability. O(unsynced data). With grouped commits it
  // commits the open batch first, and fails as long as that fails, or check_name() does. The lock is not held while the
  // disk works.
  Status sync();

  // Only the disk's part of sync(), for commits made so far. Needs no lock.
  Status sync_log();

  // Looks whether the file was overwritten in place, as by `cp other.db agent.db`. SQLite does not notice: it would
  // read and checkpoint a mixture of both. `was_written` returns whether the file was written to since its last call.
  // Writes that no checkpoint of any program explains are such an overwriting: from then on every transaction and
  // check_name() fail with kStale, nothing is written to the file any more, and the log loses its name. Call it often,
  // at least after each batch. Thread-safe.
  void look_for_writes(const std::function<bool()>& was_written);
  bool is_overwritten() const { return is_overwritten_; }
  // Called before each checkpoint of this connection: it calls look_for_writes().
  void before_checkpoint(std::function<void()> look) { before_checkpoint_ = std::move(look); }

  // kStale if the path no longer leads to the open file, because the file was deleted, moved or
  // replaced. Everything still works, and backup_to() can save it. If the file has no name any more, its log loses its
  // name too: whatever file is at the path must not be read with that log. Needs no lock.
  Status check_name();
  // After that: makes a file that was moved complete, without a log, and returns its new path. nullopt if it is
  // unknown.
  Result<std::optional<std::string>> settle_moved_file();

  bool is_grouped() const { return commits_ == Commits::kGrouped; }
  Batch& batch() { return batch_; }
  const Batch& batch() const { return batch_; }
  // Commits the open batch, if there is one and no transaction is running. If that fails, the batch stays open with all
  // of its changes, and the commit is tried again.
  Status end_batch();
  // How many batches could neither be committed nor restored. Their changes had been accepted and are gone.
  int lost_batches() const { return lost_batches_; }
  // Drops the open batch, if there is one. For an observer that is about to go and could not end it.
  void abandon_batch();
  // Call before a shared write that adds about `bytes`, or within it before its first change. kNoSpace if the disk
  // lacks room for it, in the log or later in the file; while the open batch cannot be committed, the reason for that.
  // Earlier changes are kept. Under MustKeep (base/must_keep.h) Ok for some bytes even then: they stay in the batch.
  Status reserve(std::uint64_t bytes, Room room = Room::kUsual);

  // From now on every commit of another Warren process touches the -wal file (os/files/watch.h) once the commit is
  // visible. Other programs do not touch it.
  void listen_for_commits();

  // Seats of connections that may have nodes open (db/wal_signals.h), for any program of ours to see. All return 0 if
  // there is none, as for a database in memory.
  std::uint32_t take_seat();
  void leave_seat();
  std::uint32_t seat() const { return seat_; }
  std::uint32_t find_seat_after(std::uint32_t seat);  // of another connection

  std::string wal_path() const;  // absolute
  // Pages in the log after our newest commit; may be called without the lock.
  std::uint32_t log_pages() const { return log_pages_; }
  // Copies pages from the log to the file, as far as possible without waiting for other connections; returns how many
  // pages of the log are in the file now.
  Result<std::uint32_t> checkpoint();
  // Copies all of the log to the file and empties it, so that the file alone is complete: before it is renamed, since
  // closing does not report an error. Waits for other connections; kBusy if they do not finish.
  Status empty_log();

  // Copies the whole database, while others use it, to `path`, which must not exist. The copy appears under that name
  // only when it is complete, on the disk and checked. Not within a write transaction (kBusy), nor while another
  // process is writing a copy of the same name (kBusy). kCorrupt if the content is damaged, unless that is expected.
  // The copy of an encrypted database is encrypted too: with the same key, or with `key`.
  Status backup_to(const std::string& path, CopyOf source = CopyOf::kSound, const SharedDatabaseKey& key = {});

  // The same as backup_to, but every row is written anew into a file with this key, or without one (null), which only
  // its owner can read. For a database that is opened with Conversion::kPossible.
  Status write_anew(const std::string& path, const SharedDatabaseKey& key);

  // From now on nobody else can open the database, until this object is destroyed; it has no log any more. What is
  // changed then is safe in a crash by SQLite's rollback journal. kBusy if another connection has it open.
  Status hold_alone();
  // After hold_alone(), before another file takes its name: nothing will be changed any more, and no journal is left.
  Status leave_no_journal();
  // After hold_alone(), when another file has taken its name: waits until nobody else has this one open, or has given
  // up waiting for it. They would go on with this file, and with the log of the other one.
  void outwait_others();

  void observe(TransactionObserver* observer) { observer_ = observer; }

 private:
  friend class Statement;
  friend class Transaction;
  Database(std::string path, std::unique_ptr<WalVfs> vfs, sqlite3* handle);

  static Result<std::unique_ptr<Database>> open_once(const std::string& path, const DatabaseOptions& options);
  static Result<std::unique_ptr<Database>> open_handle(const std::string& path, const DatabaseOptions& options,
                                                       SharedDatabaseKey key);
  static Result<std::unique_ptr<Database>> open_encrypted(const std::string& path, const DatabaseOptions& options,
                                                          std::string_view salt);
  Status configure(const DatabaseOptions& options);
  Status prepare_own_statements();
  Status switch_to_wal(std::chrono::milliseconds wait);
  void wait_unless_replaced();  // makes SQLite wait for locks only while the path leads to the same file
  bool is_replaced() const;     // while it is being opened
  void map_log_index();
  void remove_log_names();
  std::optional<std::int64_t> find_sealed_number() const;
  Status seal_under_lock();
  CommitMark read_log_index() const;
  // How far the log has been checkpointed, in the log's index.
  struct CheckpointMark {
    std::array<std::uint32_t, 2> salt{};  // changes when the log begins anew
    std::uint32_t done = 0;               // frames
    std::uint32_t attempted = 0;          // set before the first page is written
    bool operator==(const CheckpointMark&) const = default;
  };
  CheckpointMark read_checkpoint_mark() const;
  Error overwritten() const;
  bool is_batch_elsewhere(Access access);
  Status begin_to_read();
  Status begin_to_write();  // kBusy at once if another connection writes
  Status begin_shared_read();
  Status begin_deferred();
  Status open_batch();
  Status commit_batch();
  void undo_change();
  Status restore_batch();
  Status begin_and_repeat();
  std::optional<std::uint32_t> count_commits() const;  // of any program
  Status begin_again();
  Status repeat_statements();
  Status reserve_room(std::uint64_t bytes, Room room);
  void make_room_for_unit();
  Result<Statement> prepare_again(const std::string& sql);  // of a statement that was prepared before
  void lose_batch();
  void revive_batch();
  Result<std::int64_t> copy_to(const std::string& path, const SharedDatabaseKey& key);  // pages
  Error error(int code, std::string_view what) const;
  std::uint32_t version() const;  // changes with every commit, ours and others'
  bool was_rolled_back() const;   // in a transaction: SQLite has rolled it back itself, as on a full disk

  std::string path_;
  std::unique_ptr<WalVfs> vfs_;  // of a connection that may write; outlives handle_
  sqlite3* handle_;
  SharedDatabaseKey key_;
  bool read_only_ = false;
  std::optional<FileId> found_file_;  // that the path led to just before SQLite opened it
  std::recursive_mutex mutex_;
  TransactionObserver* observer_ = nullptr;

  // Of the open transaction; under mutex_.
  int depth_ = 0;
  bool writing_ = false;
  std::uint64_t transaction_number_ = 0;
  std::uint32_t seen_version_ = 0;
  std::uint64_t foreign_epoch_ = 0;
  bool broken_ = false;      // an inner one failed after changing rows, or was rolled back by SQLite
  bool lost_batch_ = false;  // its commit lost the batch; its destructor has nothing to roll back
  int lost_batches_ = 0;
  std::size_t change_at_ = 0;                      // in a batch: how many statements had run when the change began
  bool is_repeating_ = false;                      // the statements of a batch
  bool failed_statement_ = false;                  // that writes; it may have changed something
  std::optional<std::uint32_t> commits_at_batch_;  // when the batch began: nobody else can commit before it ends
  std::optional<std::chrono::steady_clock::time_point> yields_until_;  // to processes that knock, before the next batch

  // A shared read that has not run a statement: SQLite's transaction begins with the first one. Only while the log's
  // index, which every commit changes, is what it was when SQLite last read the file.
  bool deferred_ = false;
  const volatile std::byte* log_index_ = nullptr;  // SQLite's mapping of it
  CommitMark seen_index_{};

  // Under mutex_, except the atomics.
  Commits commits_ = Commits::kEach;
  std::unique_ptr<WalSignals> signals_;  // null without a -wal file
  std::optional<NamedFile> named_file_;  // of a connection that may write
  std::atomic<bool> log_is_nameless_ = false;
  std::atomic<bool> is_overwritten_ = false;
  std::mutex checkpoint_mark_mutex_;
  std::optional<CheckpointMark> checkpoint_mark_;  // before the last look
  std::function<void()> before_checkpoint_;
  Batch batch_;
  std::chrono::milliseconds busy_wait_ = limits::kBusyWait;
  std::int64_t page_bytes_ = 4096;
  bool log_is_checkpointed_ = false;  // no batch was committed since a checkpoint that copied every page
  std::atomic<bool> log_name_is_synced_ = false;
  std::atomic<std::uint32_t> log_pages_ = 0;
  std::uint32_t own_commits_ = 0;  // with grouped commits
  std::uint32_t seat_ = 0;
  bool log_had_commits_ = false;            // before this connection was opened
  std::optional<std::int64_t> count_base_;  // see number_commits(): the number of the log's first commit

  Statement begin_read_;
  Statement begin_write_;
  Statement commit_;
  Statement rollback_;
  Statement page_count_;
  Statement free_count_;
  Statement page_size_;
  Statement look_;
};

}  // namespace warren
