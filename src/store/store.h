// An agent file, open: its filesystem, key-value store and tool-call trail over one connection.
//
// Thread-safe. Several processes may have one agent open at once; each sees what the others commit.
// Destroying the last open Store leaves a single file behind (no -wal, no -shm).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"
#include "db/transaction.h"
#include "fs/change_listener.h"
#include "store/journal.h"
#include "store/schema.h"

namespace warren {

class Keeper;
class KeyValue;
class SqliteFs;
class ToolCalls;
class Usage;

struct StoreOptions {
  OpenMode mode = OpenMode::kReadWrite;
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;  // kGrouped: the filesystem's changes, for a mount
  std::uint32_t chunk_bytes = 4096;  // of a file being created
  const char* vfs = nullptr;         // tests: a disk that fails
};

class Store final : private TransactionObserver {
 public:
  // kNotFound, kExists (creating), kCorrupt (empty, foreign or damaged: the file is left as it is).
  // A file of an older schema opens, but for reading only (is_read_only); `migrate` brings it up.
  static Result<std::unique_ptr<Store>> open(const std::string& path, const StoreOptions& options, Clock& clock);
  ~Store() override;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  SqliteFs& fs() { return *fs_; }
  KeyValue& kv() { return *kv_; }
  ToolCalls& tools() { return *tools_; }

  // Makes several calls one: everything between begin and commit lands together, or nothing does.
  Result<Transaction> begin_write() { return Transaction::begin(*database_, Access::kWrite); }

  const Schema& schema() const { return schema_; }
  bool is_read_only() const { return database_->is_read_only(); }
  const std::string& path() const { return database_->path(); }
  Database& database() { return *database_; }
  Clock& clock() { return clock_; }

  Journal* journal() { return journal_.get(); }  // null when read-only
  Usage& usage() { return *usage_; }

  // How often rows were rolled back: whoever keeps some in memory looks at them again then.
  std::uint64_t rollbacks() const { return rollbacks_; }

  void make_room();  // before a large write, without the database's lock
  void has_work();   // SqliteFs::collect_some has something to do

  // See FileSystem::listen. Only a store with grouped commits can tell.
  Status listen(ChangeListener* listener);

  Status backup_to(const std::string& path) { return database_->backup_to(path); }

 private:
  Store(std::unique_ptr<Database> database, Clock& clock);
  Status assemble(Commits commits);
  Status before_commit() override;
  void after_commit() override;
  void after_rollback() override;
  void batch_opened() override;

  Clock& clock_;
  std::uint64_t rollbacks_ = 0;         // under the database's lock
  std::unique_ptr<Database> database_;  // before everything that holds its statements
  Schema schema_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Usage> usage_;
  std::unique_ptr<SqliteFs> fs_;
  std::unique_ptr<KeyValue> kv_;
  std::unique_ptr<ToolCalls> tools_;
  std::unique_ptr<Keeper> keeper_;  // null without grouped commits
};

}  // namespace warren
