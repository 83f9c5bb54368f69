// One connection to one SQLite file: the only way the rest of Warren meets SQLite.
//
// The file is in WAL mode, so that other processes read and write while we have it open, and the
// last clean close leaves a single file. Errors carry the path and say what to do where we know.
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
#include "db/sql.h"
#include "db/statement.h"

struct sqlite3;

namespace warren {

class BatchLock;
class WalVfs;
enum class Access;

enum class OpenMode {
  kReadOnly,
  kReadWrite,  // must exist
  kCreate,     // must not exist
};

// What a commit survives. Either way it is whole or not there at all.
enum class Durability {
  kPower,    // the disk has it when commit returns: a power cut loses nothing
  kProcess,  // the system has it: a killed process loses nothing; sync() asks for more
};

// When changes are committed.
enum class Commits {
  kEach,     // each transaction for itself
  kGrouped,  // shared ones together in a batch; see Transaction. Not durable before sync()
};

// Whether a reader may make temporary tables, which live beside the file and not in it.
enum class TempTables { kNo, kYes };
enum class Checkpoints { kByCommits, kByOwner };  // kByOwner: by checkpoint() alone; log_pages() tells when

struct DatabaseOptions {
  OpenMode mode = OpenMode::kReadWrite;
  TempTables temp_tables = TempTables::kNo;
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;
  std::uint32_t page_bytes = 4096;  // of a file being created
  std::int64_t cache_bytes = std::int64_t{16} << 20;
  std::int64_t log_bytes = 0;  // when a commit moves the log into the file; 0: at SQLite's 1,000 pages
  Checkpoints checkpoints = Checkpoints::kByCommits;
  std::chrono::milliseconds busy_wait = limits::kBusyWait;
  const char* vfs = nullptr;  // tests: a disk that fails
};

// Space inside the file; read in the same view as everything else of a transaction.
struct DatabaseSize {
  std::uint64_t page_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;  // without the free list
};

// Hears about the outermost write transactions of a connection. before_commit may still write; its
// failure rolls the transaction back. after_rollback comes only if rows had been changed.
class TransactionObserver {
 public:
  virtual ~TransactionObserver() = default;
  virtual Status before_commit() = 0;
  virtual void after_commit() = 0;
  virtual void after_rollback() = 0;
  virtual void batch_opened() {}
};

// Thread-safe where lock() is held: one thread at a time uses the connection. The lock is held
// across disk access on purpose: it is what serialises the connection.
class Database {
 public:
  // ":memory:" gives a private database that goes with the object.
  static Result<std::unique_ptr<Database>> open(const std::string& path, const DatabaseOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Result<Statement> prepare(Sql sql);
  Result<Statement> prepare(UserSql sql);  // exactly one statement
  Status execute(Sql sql);                 // any number of statements, no values

  std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }
  std::unique_lock<std::recursive_mutex> try_lock() { return std::unique_lock(mutex_, std::try_to_lock); }

  const std::string& path() const { return path_; }
  bool is_read_only() const { return read_only_; }
  std::int64_t last_insert_id() const;
  std::int64_t changes() const;        // rows the last statement changed
  std::int64_t total_changes() const;  // rows changed since the connection was opened

  // Moves when another connection, of whatever program, committed something: whoever caches rows
  // drops them then. Ask inside a transaction, after its first statement. No I/O.
  std::uint64_t foreign_epoch();

  // Makes SQLite look at the file, if nothing in the transaction has yet: before asking for the epoch.
  Status look();

  // What every commit changes, of whatever program: while it is the same, so is everything that was read. nullopt where
  // that is not known, as inside a transaction of ours. No I/O.
  using CommitMark = std::array<std::byte, 48>;
  std::optional<CommitMark> find_commit_mark();

  // Another number for each outermost transaction: whoever keeps something for the length of one
  // learns by it that theirs is over, however it ended.
  std::uint64_t transaction_number() const { return transaction_number_; }

  Result<DatabaseSize> size();

  // Makes what was committed survive a power cut, whatever the durability. O(unsynced data). With grouped
  // commits, the open batch too; and if an earlier batch was lost, this says why, once. The lock is not
  // held while the disk works.
  Status sync();

  // Of that only the disk's part: what was committed until now. Needs no lock.
  Status sync_log();

  // Grouped commits. A batch ends when it is large, after limits::kBatchTime, when another process wants
  // its turn, and when somebody here says so.
  Status end_batch();
  bool is_grouped() const { return commits_ == Commits::kGrouped; }
  bool in_batch() const { return batch_open_; }
  // The open batch is for us alone: nobody else waits for what is in it.
  bool in_private_batch() const { return batch_open_ && !batch_end_wanted_; }
  // What is kept back in memory to be written when the batch ends, about so many bytes of it. It counts
  // as a change: if the transaction then goes away without commit, the batch is rolled back.
  void note_kept_back(std::uint64_t bytes);
  // What was kept back is in SQLite by now, since total_changes() was so many: no change of this transaction.
  void note_written_back(std::int64_t changes_before) { kept_back_ -= total_changes() - changes_before; }
  void note_batch_bytes(std::uint64_t bytes) { batch_bytes_ += bytes; }  // of what SQLite has already
  // Before a shared write that adds about so many bytes: makes sure that the disk has room for it now, in
  // the log and later in the file. kNoSpace if it has not, with everything before kept: a batch that were
  // lost for want of space would take changes with it that were reported as done.
  Status reserve(std::uint64_t bytes);
  // For the thread that ends batches in time; may be called without the lock.
  std::optional<std::chrono::steady_clock::time_point> batch_opened_at() const;
  void want_batch_end() { batch_end_wanted_ = true; }

  // From now on every commit of another Warren process touches the -wal file (os/watch.h), once it can be
  // seen. Other programs do not.
  void listen_for_commits();

  std::string wal_path() const;  // absolute
  // Pages in the log after our newest commit; may be called without the lock.
  std::uint32_t log_pages() const { return log_pages_; }
  // Moves what is in the log to the file, as far as that goes without waiting for others; returns how many
  // pages of the log are moved by now.
  Result<std::uint32_t> checkpoint();

  // Copies the whole database, while others use it, into `path`, which must not exist. The copy
  // appears under that name only when it is complete. Not within a write transaction (kBusy).
  Status backup_to(const std::string& path);

  void observe(TransactionObserver* observer) { observer_ = observer; }

 private:
  friend class Statement;
  friend class Transaction;
  Database(std::string path, std::unique_ptr<WalVfs> vfs, sqlite3* handle);

  Status configure(const DatabaseOptions& options);
  Status keep_a_log(std::chrono::milliseconds wait);
  void map_log_index();
  CommitMark read_log_index() const;
  Status begin(Statement& statement);
  bool is_batch_elsewhere(Access access);
  Status begin_shared_read();
  Status begin_lazy();
  Status open_batch();
  Status commit_batch();
  void close_batch();
  void lose_batch(const Error& why);
  Result<std::uint64_t> measure_headroom();
  bool is_batch_due() const;
  Status copy_to(const std::string& path);
  Error error(int code, std::string_view what) const;
  std::uint32_t version() const;  // moves with every commit, ours and others'
  bool was_rolled_back() const;   // in a transaction: SQLite has ended it by itself, as on a full disk

  std::string path_;
  std::unique_ptr<WalVfs> vfs_;  // of a connection that may write; goes after it
  sqlite3* handle_;
  bool read_only_ = false;
  std::recursive_mutex mutex_;
  TransactionObserver* observer_ = nullptr;

  // Of the open transaction; under mutex_.
  int depth_ = 0;
  bool writing_ = false;
  std::uint64_t transaction_number_ = 0;
  std::uint32_t seen_version_ = 0;
  std::uint64_t foreign_epoch_ = 0;
  bool broken_ = false;  // an inner one failed after changing something, or was rolled back by SQLite

  // A shared read that nobody has asked SQLite anything in yet: it begins when somebody does. Only while
  // the log's index, which every commit changes, is as it was at the last look.
  bool lazy_ = false;
  const volatile std::byte* log_index_ = nullptr;  // SQLite's mapping of it
  CommitMark seen_index_{};

  // Of the open batch; under mutex_, but for the atomics.
  Commits commits_ = Commits::kEach;
  std::unique_ptr<BatchLock> batch_lock_;
  bool batch_open_ = false;
  bool batch_was_lost_ = false;  // by a commit whose transaction is still there
  std::uint64_t batch_bytes_ = 0;
  std::int64_t kept_back_ = 0;  // changes counted by note_kept_back
  std::optional<Error> lost_batch_;
  std::int64_t page_bytes_ = 4096;
  std::int64_t looked_elsewhere_ns_ = 0;
  std::uint64_t reserved_bytes_ = 0;               // by the open batch
  std::uint64_t headroom_bytes_ = 0;               // what it may reserve before the disk must be looked at again
  bool log_is_moved_ = false;                      // nothing was committed since a checkpoint that moved everything
  std::atomic<std::int64_t> batch_opened_ns_ = 0;  // 0: none is open
  std::atomic<bool> batch_end_wanted_ = false;
  std::atomic<bool> log_name_is_synced_ = false;
  std::atomic<std::uint32_t> log_pages_ = 0;

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
