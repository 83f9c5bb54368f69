// A prepared statement: prepared once, kept as a member, run often.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "db/redo.h"

struct sqlite3_stmt;

namespace warren {

class Database;
class Statement;

enum class ColumnType { kInteger, kReal, kText, kBlob, kNull };

// The rows of one run. Its destructor resets the statement, so that no read lock outlives it. Views
// are valid until the next row.
class Rows {
 public:
  Rows(Rows&& other) noexcept;
  Rows& operator=(Rows&&) = delete;
  ~Rows();

  Result<bool> next();

  ColumnType type(int column) const;
  bool is_null(int column) const { return type(column) == ColumnType::kNull; }
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string_view text(int column) const;
  Bytes blob(int column) const;

  int column_count() const;
  std::string_view column_name(int column) const;

 private:
  friend class Statement;
  explicit Rows(Statement& statement) : statement_(&statement) {}
  Statement* statement_;
};

// Not thread-safe by itself: run it while holding the database's lock (a Transaction does). Bound values
// are not copied and must stay valid until the run ends; bind all of them before each run. A failed bind is
// reported by the run.
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, int value) { return bind(index, std::int64_t{value}); }
  Statement& bind(int index, std::uint32_t value) { return bind(index, std::int64_t{value}); }
  // For inode numbers and sizes: SQLite integers are signed, and no limit of ours reaches the sign bit.
  Statement& bind(int index, std::uint64_t value) { return bind(index, static_cast<std::int64_t>(value)); }
  Statement& bind(int index, double value);
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, const char* text) { return bind(index, std::string_view(text)); }
  Statement& bind(int index, Bytes blob);
  Statement& bind_null(int index);
  template <class T>
  Statement& bind(int index, const std::optional<T>& value) {
    return value ? bind(index, *value) : bind_null(index);
  }

  Status run();  // to the end, dropping rows
  Rows rows() { return Rows(*this); }
  Result<std::optional<std::int64_t>> find_integer();  // first column of the first row, if any

  bool read_only() const;
  int times_parsed_again() const;  // SQLite drops a plan when the schema changes

 private:
  friend class Database;
  friend class Rows;
  Statement(Database& database, sqlite3_stmt* handle);
  Statement& note(int code);
  Statement& note_value(int index, BoundValue value);
  void bind_again(int index, const Redo::Value& value);
  Result<bool> step();
  void note_for_redo(RedoOutcome outcome);
  void reset();

  Database* database_ = nullptr;
  sqlite3_stmt* handle_ = nullptr;
  int failed_bind_ = 0;
  // For a statement that writes, on a connection that has batches (see Redo).
  bool is_repeatable_ = false;
  bool is_noted_ = false;  // by the run under way
  std::optional<std::uint32_t> redo_sql_;
  std::vector<BoundValue> values_;
};

}  // namespace warren
