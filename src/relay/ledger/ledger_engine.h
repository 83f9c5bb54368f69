// The database under the ledger: SQLite in a file, or PostgreSQL for several relays. Both run the same SQL.
//
// That SQL uses only features that both have: ?1 placeholders, ON CONFLICT … DO, RETURNING, integers, text and bytes.
// Tables are defined in SQLite's dialect; postgres_ddl() translates them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "db/sql.h"

namespace warren::relay {

// A prepared statement of an engine.
class EngineStatement {
 public:
  virtual ~EngineStatement() = default;
  virtual void bind_integer(int index, std::int64_t value) = 0;
  virtual void bind_text(int index, std::string_view text) = 0;
  virtual void bind_bytes(int index, Bytes bytes) = 0;
  virtual void bind_null(int index) = 0;
  virtual Result<bool> step() = 0;
  virtual void reset() = 0;
  virtual bool is_null(int column) const = 0;
  virtual std::int64_t integer(int column) const = 0;
  virtual std::string_view text(int column) const = 0;
  virtual std::string bytes(int column) const = 0;
  virtual Status run(std::int64_t* id) = 0;
  virtual void look_ahead() {}
  virtual void forget_ahead() {}
};

// The rows of one run. Views are valid until the next row.
class Rows {
 public:
  explicit Rows(EngineStatement& statement) : statement_(&statement) {}
  Rows(Rows&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Rows& operator=(Rows&&) = delete;
  ~Rows() {
    if (statement_ != nullptr) statement_->reset();
  }

  Result<bool> next() { return statement_->step(); }
  bool is_null(int column) const { return statement_->is_null(column); }
  std::int64_t integer(int column) const { return statement_->integer(column); }
  std::string_view text(int column) const { return statement_->text(column); }
  std::string bytes(int column) const { return statement_->bytes(column); }

 private:
  EngineStatement* statement_;
};

// Bound values are not copied and must live until the run has ended; every run needs its own binds. A failed bind is
// reported by the run.
class Statement {
 public:
  Statement() = default;
  explicit Statement(std::unique_ptr<EngineStatement> of) : of_(std::move(of)) {}

  Statement& bind(int index, std::int64_t value) {
    of_->bind_integer(index, value);
    return *this;
  }
  Statement& bind(int index, int value) { return bind(index, std::int64_t{value}); }
  Statement& bind(int index, std::uint32_t value) { return bind(index, std::int64_t{value}); }
  Statement& bind(int index, std::uint64_t value) { return bind(index, static_cast<std::int64_t>(value)); }
  Statement& bind(int index, std::string_view text) {
    of_->bind_text(index, text);
    return *this;
  }
  Statement& bind(int index, const char* text) { return bind(index, std::string_view(text)); }
  Statement& bind(int index, Bytes bytes) {
    of_->bind_bytes(index, bytes);
    return *this;
  }
  Statement& bind_null(int index) {
    of_->bind_null(index);
    return *this;
  }
  template <class T>
  Statement& bind(int index, const std::optional<T>& value) {
    return value ? bind(index, *value) : bind_null(index);
  }

  // Runs to the end and discards rows. Within a transaction PostgreSQL may report a failure later, with the next rows
  // or by commit().
  Status run() { return of_->run(nullptr); }
  // For an insert: `id` is set by the time commit() returns, and must live until then or until the rollback.
  Status run_for(std::int64_t& id) { return of_->run(&id); }
  Rows rows() { return Rows(*of_); }
  Result<std::optional<std::int64_t>> find_integer();  // first column of the first row, if any

  // Prefetches the rows for the bound values: many prefetches cost one round trip. The rows are as of now;
  // forget_ahead() drops those that were not used.
  void look_ahead() { of_->look_ahead(); }
  void forget_ahead() { of_->forget_ahead(); }

 private:
  std::unique_ptr<EngineStatement> of_;
};

// Notifications from other relays.
struct News {
  bool is_for_us = false;        // there is work for this relay
  bool concerns_agents = false;  // agents, subscriptions or homes have changed
};

// One thread. Statements must not outlive it.
class LedgerEngine {
 public:
  virtual ~LedgerEngine() = default;
  virtual Result<Statement> prepare(Sql sql) = 0;
  virtual Result<Statement> prepare_insert(Sql sql) = 0;  // of one row; run_for() returns its column `id`
  virtual Status execute(Sql sql) = 0;                    // any number of statements, no values
  virtual Result<bool> has_table(std::string_view name) = 0;
  virtual Status begin() = 0;
  virtual Status commit() = 0;
  // Commits, but a power cut may still undo this commit and all later ones until the next sync().
  virtual Status commit_unsynced() { return commit(); }
  virtual Status sync() { return Ok{}; }    // any thread
  virtual Status resync() { return Ok{}; }  // after sync() failed: writes the data to another place
  // The log is being moved. Changes committed meanwhile are moved last, and a commit waits for that.
  virtual bool is_moving() const { return false; }
  virtual void rollback() = 0;
  virtual Status check_statements() { return Ok{}; }     // whether all prepared statements are valid
  virtual Result<std::vector<std::string>> check() = 0;  // problems of the storage itself
  virtual Status backup_to(const std::string& path) = 0;

  // Only a shared engine can be unavailable, and has news.
  virtual bool is_shared() const { return false; }
  virtual bool is_lost() const { return false; }
  virtual bool is_in_doubt() const { return false; }  // it is unknown whether the last commit happened
  virtual Status reconnect() { return Ok{}; }
  virtual int fd() const { return -1; }
  virtual Result<News> take_news() { return News{}; }
};

enum class EngineUse { kCreate, kWrite, kRead };

Result<std::unique_ptr<LedgerEngine>> open_sqlite(const std::string& path, EngineUse use);
// `home` is the relay on whose channel it listens; "": none.
Result<std::unique_ptr<LedgerEngine>> open_postgres(const std::string& url, EngineUse use, const std::string& home);

// Translates SQLite's dialect to PostgreSQL's.
std::string postgres_sql(std::string_view sql);  // ?1 and ? become $1
std::string postgres_ddl(std::string_view sql);  // column types as well

}  // namespace warren::relay
