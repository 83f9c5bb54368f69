#include <fmt/format.h>

#include "db/database.h"
#include "db/statement.h"
#include "db/transaction.h"
#include "relay/ledger/ledger_engine.h"
#include "relay/ledger/log_mover.h"

namespace warren::relay {
namespace {

// A round changes a few rows in each of a dozen trees: small pages make its commit small. Measured at 1,000 messages a
// second, one per round: 32 KB written for each, and 79 KB with pages of 4 KiB.
constexpr std::uint32_t kPageBytes = 1024;
// Enough for a thousand agents.
constexpr std::int64_t kCacheBytes = std::int64_t{16} << 20;
constexpr std::uint32_t kLogPages = 16 * 1024;  // 16 MiB

class SqliteStatement final : public EngineStatement {
 public:
  SqliteStatement(Database& db, ::warren::Statement statement) : db_(db), statement_(std::move(statement)) {}

  void bind_integer(int index, std::int64_t value) override { statement_.bind(index, value); }
  void bind_text(int index, std::string_view text) override { statement_.bind(index, text); }
  void bind_bytes(int index, Bytes bytes) override { statement_.bind(index, bytes); }
  void bind_null(int index) override { statement_.bind_null(index); }
  Result<bool> step() override {
    if (!rows_) rows_.emplace(statement_.rows());
    return rows_->next();
  }
  void reset() override { rows_.reset(); }
  bool is_null(int column) const override { return rows_->is_null(column); }
  std::int64_t integer(int column) const override { return rows_->integer(column); }
  std::string_view text(int column) const override { return rows_->text(column); }
  std::string bytes(int column) const override { return std::string(as_text(rows_->blob(column))); }
  Status run(std::int64_t* id) override {
    WARREN_TRY(statement_.run());
    if (id != nullptr) *id = db_.last_insert_id();
    return Ok{};
  }

 private:
  Database& db_;
  ::warren::Statement statement_;
  std::optional<::warren::Rows> rows_;
};

class SqliteEngine final : public LedgerEngine {
 public:
  SqliteEngine(std::unique_ptr<Database> db, std::string path) : db_(std::move(db)), mover_(std::move(path)) {}

  Result<Statement> prepare(Sql sql) override {
    ::warren::Statement statement = WARREN_TRY(db_->prepare(sql));
    return Statement(std::make_unique<SqliteStatement>(*db_, std::move(statement)));
  }
  // RETURNING would create a temporary table for each run: a third of the cost of a message.
  Result<Statement> prepare_insert(Sql sql) override { return prepare(sql); }
  Status execute(Sql sql) override { return db_->execute(sql); }
  Result<bool> has_table(std::string_view name) override {
    auto find = WARREN_TRY(prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1"));
    std::optional<std::int64_t> found = WARREN_TRY(find.bind(1, name).find_integer());
    return found.has_value();
  }
  Status begin() override {
    if (mover_.take_over()) db_->checkpoint().ignore("the log keeps growing, and is moved later");
    auto transaction = WARREN_TRY(::warren::Transaction::begin(*db_, Access::kWrite));
    transaction_.emplace(std::move(transaction));
    return Ok{};
  }
  Status commit() override {
    WARREN_TRY(commit_unsynced());
    return sync();
  }
  Status commit_unsynced() override {
    Status done = transaction_->commit();
    transaction_.reset();  // rolls back after a failure
    if (db_->log_pages() >= kLogPages) mover_.start();
    return done;
  }
  Status sync() override { return db_->sync_log(); }
  Status resync() override {
    std::uint32_t moved = WARREN_TRY(db_->checkpoint());
    if (moved < db_->log_pages()) return Error(Code::kBusy, "the ledger's log is being read");
    return Ok{};
  }
  bool is_moving() const override { return mover_.is_at_work(); }
  void rollback() override { transaction_.reset(); }
  Status backup_to(const std::string& path) override { return db_->backup_to(path); }

  Result<std::vector<std::string>> check() override {
    std::vector<std::string> found;
    ::warren::Statement integrity = WARREN_TRY(db_->prepare("PRAGMA integrity_check(20)"));
    ::warren::Rows rows = integrity.rows();
    while (WARREN_TRY(rows.next())) {
      if (rows.text(0) != "ok") found.push_back(fmt::format("ledger.db: {}", rows.text(0)));
    }
    return found;
  }

 private:
  std::unique_ptr<Database> db_;
  std::optional<::warren::Transaction> transaction_;
  LogMover mover_;
};

}  // namespace

Result<std::optional<std::int64_t>> Statement::find_integer() {
  Rows all = rows();
  if (!WARREN_TRY(all.next())) return std::optional<std::int64_t>();
  return std::optional(all.integer(0));
}

Result<std::unique_ptr<LedgerEngine>> open_sqlite(const std::string& path, EngineUse use) {
  OpenMode mode = use == EngineUse::kRead    ? OpenMode::kReadOnly
                  : use == EngineUse::kWrite ? OpenMode::kReadWrite
                                             : OpenMode::kCreate;
  auto db = WARREN_TRY(Database::open(path, {.mode = mode,
                                             .durability = Durability::kProcess,
                                             .page_bytes = kPageBytes,
                                             .cache_bytes = kCacheBytes,
                                             .checkpoints = Checkpoints::kByOwner}));
  return std::unique_ptr<LedgerEngine>(std::make_unique<SqliteEngine>(std::move(db), path));
}

}  // namespace warren::relay
