// Requests to the relay, made through the ledger.
#include <fmt/format.h>

#include "base/json.h"
#include "relay/ledger/ledger.h"

namespace warren::relay {
namespace {

// Separate from pending_operations, whose columns the specification defines.
constexpr Sql kOperationTables = R"(
CREATE TABLE IF NOT EXISTS operation_errors (
    operation_id INTEGER PRIMARY KEY,
    error TEXT NOT NULL
);
)";

}  // namespace

Status Ledger::create_operation_tables() { return db_->execute(kOperationTables); }

Status Ledger::prepare_operations() {
  const Prepared statements[] = {
      {&operations_,
       "SELECT id, operation_type, payload FROM pending_operations WHERE completed_at IS NULL AND id > ?1 ORDER BY id"
       " LIMIT ?2"},
      {&complete_, "UPDATE pending_operations SET completed_at = ?2 WHERE id = ?1"},
      {&find_operation_,
       "SELECT id FROM pending_operations WHERE completed_at IS NULL AND operation_type = ?1 AND payload = ?2"},
  };
  WARREN_TRY(prepare_all(statements));
  request_ = WARREN_TRY(
      db_->prepare_insert("INSERT INTO pending_operations(operation_type, payload, created_at) VALUES (?,?,?)"));
  has_operation_errors_ = WARREN_TRY(db_->has_table("operation_errors"));
  if (!has_operation_errors_) return Ok{};  // a relay of an earlier version serves it
  const Prepared more[] = {
      {&fail_operation_, "INSERT INTO operation_errors(operation_id, error) VALUES (?1, ?2)"},
      {&find_outcome_,
       "SELECT o.completed_at, e.error FROM pending_operations o LEFT JOIN operation_errors e ON e.operation_id = o.id"
       " WHERE o.id = ?1"},
      {&list_operations_,
       "SELECT o.id, o.operation_type, o.payload, o.created_at, o.completed_at, e.error FROM pending_operations o LEFT"
       " JOIN operation_errors e ON e.operation_id = o.id WHERE o.completed_at IS NULL OR e.error IS NOT NULL ORDER BY"
       " o.id DESC LIMIT ?1"},
      {&count_failed_, "SELECT count(*) FROM operation_errors"},
      {&remove_errors_,
       "DELETE FROM operation_errors WHERE NOT EXISTS (SELECT 1 FROM pending_operations o WHERE o.id = operation_id)"},
  };
  return prepare_all(more);
}

Result<std::int64_t> Ledger::request(std::string_view type, std::string_view payload, std::string_view agent) {
  std::optional<std::string> home;
  if (homes_) home = WARREN_TRY(homes_->find(agent));
  return request_at(home.value_or(this->home()), type, payload);
}

Result<std::int64_t> Ledger::request_at(std::string_view home, std::string_view type, std::string_view payload) {
  std::int64_t id = 0;
  request_.bind(1, type).bind(2, payload).bind(3, clock_.now_us());
  if (!homes_) {
    WARREN_TRY(request_.run_for(id));
    return id;
  }
  id = WARREN_TRY(request_.find_integer())
  .value_or(0);
  homes_->wake(home);
  WARREN_TRY(homes_->own_operation(id, home));
  return id;
}

Result<std::int64_t> Ledger::request_for_letter(std::int64_t letter, std::string_view type) {
  if (homes_) WARREN_TRY(lock_dead_.bind(1, letter).find_integer());  // SQLite has one writer at a time
  std::optional<DeadLetter> found = WARREN_TRY(find_dead(letter));
  if (!found) return no_letter(letter);
  std::string payload = dump_json({{"dead_letter", letter}});
  std::optional<std::int64_t> pending = WARREN_TRY(find_operation_.bind(1, type).bind(2, payload).find_integer());
  if (pending) {
    return Error(Code::kBusy, fmt::format("dead letter {} is already being {}ed", letter, type),
                 "`warren relay operations` lists what the relay has not done yet");
  }
  return request(type, payload, found->message_id.substr(0, found->message_id.find('/')));  // its relay has the file
}

Error Ledger::no_letter(std::int64_t id) {
  Result<std::optional<std::int64_t>> closed = is_closed_.bind(1, id).find_integer();
  if (!closed.ok()) return closed.error();
  if (*closed) return {Code::kConflict, fmt::format("dead letter {} is closed", id)};
  return {Code::kNotFound, fmt::format("there is no dead letter {}", id), "`warren relay dead list` shows them"};
}

Result<std::vector<Operation>> Ledger::open_operations(std::int64_t after, std::size_t limit) {
  std::vector<Operation> found;
  operations_.bind(1, after).bind(2, std::uint64_t{limit});
  if (homes_) operations_.bind(3, home());
  Rows rows = operations_.rows();
  while (WARREN_TRY(rows.next())) {
    found.push_back({rows.integer(0), std::string(rows.text(1)), std::string(rows.text(2))});
  }
  return found;
}

Status Ledger::end_operation(const OperationEnd& end) {
  WARREN_TRY(complete_.bind(1, end.id).bind(2, clock_.now_us()).run());
  if (end.error.empty()) return Ok{};
  return fail_operation_.bind(1, end.id).bind(2, end.error).run();
}

Result<std::optional<OperationEnd>> Ledger::find_end(std::int64_t operation) {
  if (!has_operation_errors_) return std::optional<OperationEnd>();
  Rows rows = find_outcome_.bind(1, operation).rows();
  if (!WARREN_TRY(rows.next()) || rows.is_null(0)) return std::optional<OperationEnd>();
  return std::optional(OperationEnd{operation, std::string(rows.text(1))});
}

Result<std::vector<RecordedOperation>> Ledger::list_operations(std::size_t limit) {
  std::vector<RecordedOperation> found;
  if (!has_operation_errors_) return found;
  Rows rows = list_operations_.bind(1, std::uint64_t{limit}).rows();
  while (WARREN_TRY(rows.next())) {
    RecordedOperation& one = found.emplace_back();
    one.operation = {rows.integer(0), std::string(rows.text(1)), std::string(rows.text(2))};
    one.requested_at_us = rows.integer(3);
    one.ended_at_us = rows.integer(4);
    one.error = rows.text(5);
  }
  return found;
}

Status Ledger::remove_operations(std::int64_t before_us, std::size_t limit) {
  WARREN_TRY(remove_operations_.bind(1, before_us).bind(2, std::uint64_t{limit}).run());
  return has_operation_errors_ ? remove_errors_.run() : Status(Ok{});
}

}  // namespace warren::relay
