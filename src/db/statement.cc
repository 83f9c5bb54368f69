#include "db/statement.h"

#include <utility>

#include <sqlite3.h>

#include "db/database.h"

namespace warren {

Rows::Rows(Rows&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}

Rows::~Rows() {
  if (statement_ != nullptr) statement_->reset();
}

Result<bool> Rows::next() { return statement_->step(); }

ColumnType Rows::type(int column) const {
  switch (sqlite3_column_type(statement_->handle_, column)) {
    case SQLITE_INTEGER: return ColumnType::kInteger;
    case SQLITE_FLOAT: return ColumnType::kReal;
    case SQLITE_TEXT: return ColumnType::kText;
    case SQLITE_BLOB: return ColumnType::kBlob;
    default: return ColumnType::kNull;
  }
}

std::int64_t Rows::integer(int column) const { return sqlite3_column_int64(statement_->handle_, column); }

double Rows::real(int column) const { return sqlite3_column_double(statement_->handle_, column); }

std::string_view Rows::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_->handle_, column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement_->handle_, column))};
}

Bytes Rows::blob(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_->handle_, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_->handle_, column))};
}

int Rows::column_count() const { return sqlite3_column_count(statement_->handle_); }

std::string_view Rows::column_name(int column) const {
  const char* name = sqlite3_column_name(statement_->handle_, column);
  return name == nullptr ? std::string_view() : name;
}

Statement::Statement(Database& database, sqlite3_stmt* handle)
    : database_(&database),
      handle_(handle),
      is_repeatable_(database.is_grouped() && handle != nullptr && sqlite3_stmt_readonly(handle) == 0) {}

Statement::Statement(Statement&& other) noexcept { *this = std::move(other); }

Statement& Statement::operator=(Statement&& other) noexcept {
  if (this != &other) {
    sqlite3_finalize(handle_);
    database_ = other.database_;
    handle_ = std::exchange(other.handle_, nullptr);
    failed_bind_ = other.failed_bind_;
    is_repeatable_ = other.is_repeatable_;
    is_noted_ = other.is_noted_;
    redo_sql_ = other.redo_sql_;
    values_ = std::move(other.values_);
  }
  return *this;
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::note(int code) {
  if (code != SQLITE_OK) failed_bind_ = code;
  return *this;
}

Statement& Statement::note_value(int index, BoundValue value) {
  auto at = static_cast<std::size_t>(index);
  if (values_.size() < at) values_.resize(at);
  values_[at - 1] = value;
  return *this;
}

Statement& Statement::bind(int index, std::int64_t value) {
  if (is_repeatable_) note_value(index, value);
  return note(sqlite3_bind_int64(handle_, index, value));
}

Statement& Statement::bind(int index, double value) {
  if (is_repeatable_) note_value(index, value);
  return note(sqlite3_bind_double(handle_, index, value));
}

Statement& Statement::bind(int index, std::string_view text) {
  // A null pointer would bind NULL, but an empty text is a value.
  const char* data = text.data() == nullptr ? "" : text.data();
  if (is_repeatable_) note_value(index, text);
  return note(sqlite3_bind_text64(handle_, index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

Statement& Statement::bind(int index, Bytes blob) {
  if (is_repeatable_) note_value(index, blob);
  if (blob.empty()) return note(sqlite3_bind_zeroblob(handle_, index, 0));
  return note(sqlite3_bind_blob64(handle_, index, blob.data(), blob.size(), SQLITE_STATIC));
}

Statement& Statement::bind_null(int index) {
  if (is_repeatable_) note_value(index, std::monostate());
  return note(sqlite3_bind_null(handle_, index));
}

void Statement::bind_again(int index, const Redo::Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) bind(index, *number);
  else if (const auto* real = std::get_if<double>(&value)) bind(index, *real);
  else if (const auto* text = std::get_if<Redo::Text>(&value)) bind(index, std::string_view(text->text));
  else if (const auto* blob = std::get_if<Redo::Blob>(&value)) bind(index, as_bytes(blob->bytes));
  else bind_null(index);
}

// With its first row a statement has made all of its changes.
void Statement::note_for_redo(RedoOutcome outcome) {
  if (is_noted_ || !database_->batch_.is_open() || database_->is_repeating_) return;
  is_noted_ = true;
  Redo& redo = database_->batch_.redo();
  if (!redo_sql_) redo_sql_ = redo.index_of(sqlite3_sql(handle_));
  redo.add(*redo_sql_, values_, outcome);
}

Result<bool> Statement::step() {
  if (failed_bind_ != SQLITE_OK) {
    int code = std::exchange(failed_bind_, SQLITE_OK);
    return database_->error(code, "bind a value");
  }
  if (database_->deferred_) WARREN_TRY(database_->begin_deferred());
  int code = sqlite3_step(handle_);
  if (is_repeatable_ && (code == SQLITE_ROW || code == SQLITE_DONE)) note_for_redo(RedoOutcome::kDone);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Error error = database_->error(code, {});
  if (is_repeatable_ && (code & 0xff) == SQLITE_CONSTRAINT) note_for_redo(RedoOutcome::kConflict);
  else if (is_repeatable_) database_->failed_statement_ = true;
  reset();
  return error;
}

void Statement::reset() {
  sqlite3_reset(handle_);
  is_noted_ = false;
}

Status Statement::run() {
  Rows all = rows();
  while (WARREN_TRY(all.next())) {
  }
  return Ok{};
}

Result<std::optional<std::int64_t>> Statement::find_integer() {
  Rows all = rows();
  if (!WARREN_TRY(all.next())) return std::optional<std::int64_t>();
  return std::optional(all.integer(0));
}

bool Statement::read_only() const { return sqlite3_stmt_readonly(handle_) != 0; }
int Statement::times_parsed_again() const { return sqlite3_stmt_status(handle_, SQLITE_STMTSTATUS_REPREPARE, 0); }

}  // namespace warren
