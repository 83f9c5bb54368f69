#include "store/record/tool_calls.h"

#include <limits>

#include <fmt/format.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "db/transaction.h"
#include "store/record/audit_log.h"
#include "store/store.h"

namespace warren {
namespace {

// The queries on a trail. Files differ in two ways: whether tool_calls has a
// status, and whether wr_tool_call exists; each of the four combinations has its own statements.
struct Queries {
  Sql find;
  Sql list;
  Sql list_by_name;
  Sql stats;
  Sql stats_for;
};

// The status of a row. A program that does not know the status column leaves its default, 'pending', on
// complete calls: their status is derived from the error, as in a table without the column.
#define WARREN_OUTCOME "CASE WHEN ifnull(t.error, '') = '' THEN 'success' ELSE 'error' END"
#define WARREN_STATUS \
  "CASE WHEN t.status = 'pending' AND t.completed_at IS NOT NULL THEN " WARREN_OUTCOME " ELSE t.status END"

#define WARREN_DETAILS "d.duration_ns, d.session, d.parent_id, d.cost_usd, d.tokens_in, d.tokens_out"
#define WARREN_NO_DETAILS "NULL, NULL, NULL, NULL, NULL, NULL"
#define WARREN_DETAILS_JOIN "LEFT JOIN wr_tool_call d ON d.id = t.id "

#define WARREN_CALLS(status, details, join)                       \
  "SELECT t.id, t.name, t.parameters, t.result, t.error, " status \
  " AS outcome, t.started_at, t.completed_at, t.duration_ms, " details " FROM tool_calls t " join
#define WARREN_STATS(status)                                                   \
  "SELECT t.name, COUNT(*) AS total, SUM(" status " = 'success'), SUM(" status \
  " = 'error'), "                                                              \
  "AVG(t.duration_ms) FROM tool_calls t WHERE " status " IN ('success', 'error') "

// Newest first is the order of the index on started_at, whose entries end in the id: no sorting. The
// `+` makes a search by name use the index of names, which reads the calls of that name and no others.
#define WARREN_QUERIES(status, details, join)                                                       \
  Queries {                                                                                         \
    .find = WARREN_CALLS(status, details, join) "WHERE t.id = ?1",                                \
    .list = WARREN_CALLS(status, details, join)                                                   \
        "WHERE t.started_at >= ?1 AND (?2 IS NULL OR outcome = ?2) "                              \
        "ORDER BY t.started_at DESC, t.id DESC LIMIT ?3",                                         \
    .list_by_name = WARREN_CALLS(status, details, join)                                           \
        "WHERE t.name = ?4 AND +t.started_at >= ?1 AND (?2 IS NULL OR outcome = ?2) "             \
        "ORDER BY +t.started_at DESC, t.id DESC LIMIT ?3",                                        \
    .stats = WARREN_STATS(status) "GROUP BY t.name ORDER BY total DESC, t.name",                  \
    .stats_for = WARREN_STATS(status) "AND t.name = ?1 GROUP BY t.name", \
  }

constexpr Queries kWithStatus = WARREN_QUERIES(WARREN_STATUS, WARREN_DETAILS, WARREN_DETAILS_JOIN);
constexpr Queries kWithStatusPlain = WARREN_QUERIES(WARREN_STATUS, WARREN_NO_DETAILS, "");
constexpr Queries kWithoutStatus = WARREN_QUERIES(WARREN_OUTCOME, WARREN_DETAILS, WARREN_DETAILS_JOIN);
constexpr Queries kWithoutStatusPlain = WARREN_QUERIES(WARREN_OUTCOME, WARREN_NO_DETAILS, "");

const Queries& queries_for(const Schema& schema) {
  if (schema.tool_calls_have_status) return schema.has_extensions ? kWithStatus : kWithStatusPlain;
  return schema.has_extensions ? kWithoutStatus : kWithoutStatusPlain;
}

// Empty text means absent, both in arguments and in rows.
std::optional<std::string_view> present(const std::optional<std::string>& text) {
  if (!text || text->empty()) return std::nullopt;
  return std::string_view(*text);
}

Status check_name_of_tool(std::string_view name) {
  if (name.empty()) return Error(Code::kInvalid, "the tool's name is empty");
  if (name.size() > limits::kToolNameBytes) {
    return Error(Code::kLimit,
                 fmt::format("the tool's name has {} bytes; {} is the limit", name.size(), limits::kToolNameBytes));
  }
  if (name.find('\0') != name.npos) {
    return Error(Code::kInvalid, fmt::format("the tool's name {} contains a NUL byte", quote(name)));
  }
  return Ok{};
}

Status check_size(std::string_view what, const std::optional<std::string_view>& text) {
  if (!text || text->size() <= limits::kValueBytes) return Ok{};
  return Error(Code::kTooLarge,
               fmt::format("the {} has {} bytes; {} is the limit", what, text->size(), limits::kValueBytes));
}

Status check_json(std::string_view what, const std::optional<std::string_view>& text) {
  WARREN_TRY(check_size(what, text));
  if (!text || is_json(*text)) return Ok{};
  return Error(Code::kInvalid, fmt::format("the {} is not JSON", what), "strings need double quotes: '\"text\"'");
}

Result<std::int64_t> duration_ms_of(const CallRecord& call) {
  if (call.completed_at < call.started_at) {
    return Error(Code::kInvalid,
                 fmt::format("the call completes at {}, before it starts at {}", call.completed_at, call.started_at));
  }
  std::int64_t duration = 0;
  if (__builtin_sub_overflow(call.completed_at, call.started_at, &duration) ||
      __builtin_mul_overflow(duration, std::int64_t{1000}, &duration)) {
    return Error(Code::kInvalid, fmt::format("a call from {} to {} is too long", call.started_at, call.completed_at));
  }
  return duration;
}

Status check_record(const CallRecord& call) {
  WARREN_TRY(check_name_of_tool(call.name));
  auto check = call.is_json ? check_size : check_json;
  WARREN_TRY(check("'parameters' text", present(call.parameters)));
  WARREN_TRY(check("'result' text", present(call.result)));
  WARREN_TRY(check_size("'error' text", present(call.error)));
  if (present(call.result) && present(call.error)) {
    return Error(Code::kInvalid, "a call has a result or an error, not both");
  }
  if (call.duration_ns.value_or(0) < 0) return Error(Code::kInvalid, "the call's duration is negative");
  return Ok{};
}

std::optional<CallStatus> status_of(std::string_view text) {
  for (CallStatus status : {CallStatus::kPending, CallStatus::kSuccess, CallStatus::kError}) {
    if (name_of(status) == text) return status;
  }
  return std::nullopt;
}

std::optional<std::string> text_at(const Rows& rows, int column) {
  std::string_view text = rows.text(column);
  if (text.empty()) return std::nullopt;
  return std::string(text);
}

std::optional<std::int64_t> integer_at(const Rows& rows, int column) {
  if (rows.is_null(column)) return std::nullopt;
  return rows.integer(column);
}

Result<ToolCall> call_from(const Rows& rows) {
  ToolCall call;
  call.id = rows.integer(0);
  call.name = rows.text(1);
  call.parameters = text_at(rows, 2);
  call.result = text_at(rows, 3);
  call.error = text_at(rows, 4);
  std::optional<CallStatus> status = status_of(rows.text(5));
  if (!status) {
    return Error(Code::kCorrupt,
                 fmt::format("tool call {} has the status {}, which is not valid", call.id, quote(rows.text(5))));
  }
  call.status = *status;
  call.started_at = rows.integer(6);
  call.completed_at = integer_at(rows, 7);
  call.duration_ms = integer_at(rows, 8);
  call.duration_ns = integer_at(rows, 9);
  call.details.session = rows.text(10);
  call.details.parent_id = integer_at(rows, 11);
  if (!rows.is_null(12)) call.details.cost_usd = rows.real(12);
  call.details.tokens_in = integer_at(rows, 13);
  call.details.tokens_out = integer_at(rows, 14);
  return call;
}

CallStats stats_from(const Rows& rows) {
  return {.name = std::string(rows.text(0)),
          .total_calls = rows.integer(1),
          .successful = rows.integer(2),
          .failed = rows.integer(3),
          .avg_duration_ms = rows.real(4)};
}

std::int64_t nanoseconds_of(Timestamp at) { return at.seconds * 1'000'000'000 + at.nanoseconds; }

Error no_call(std::int64_t id) { return {Code::kNotFound, fmt::format("no tool call {}", id)}; }

}  // namespace

std::string_view name_of(CallStatus status) {
  switch (status) {
    case CallStatus::kPending: return "pending";
    case CallStatus::kSuccess: return "success";
    case CallStatus::kError: return "error";
  }
  return "?";
}

Result<std::unique_ptr<ToolCalls>> ToolCalls::open(Store& store) {
  std::unique_ptr<ToolCalls> calls(new ToolCalls(store));
  auto guard = store.database().lock();
  if (!store.schema().has_tool_calls) return calls;
  WARREN_TRY(calls->prepare_readers());
  if (!store.is_read_only()) WARREN_TRY(calls->prepare_writers());
  return calls;
}

Status ToolCalls::prepare_readers() {
  Database& database = store_.database();
  const Queries& queries = queries_for(store_.schema());
  find_ = WARREN_TRY(database.prepare(queries.find));
  list_ = WARREN_TRY(database.prepare(queries.list));
  list_by_name_ = WARREN_TRY(database.prepare(queries.list_by_name));
  stats_ = WARREN_TRY(database.prepare(queries.stats));
  stats_for_ = WARREN_TRY(database.prepare(queries.stats_for));
  return Ok{};
}

Status ToolCalls::prepare_writers() {
  Database& database = store_.database();
  insert_details_ =
      WARREN_TRY(database.prepare("INSERT OR REPLACE INTO wr_tool_call "
                                  "(id, started_ns, duration_ns, session, parent_id, cost_usd, tokens_in, tokens_out) "
                                  "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  if (!store_.schema().tool_calls_have_status) {
    insert_ = WARREN_TRY(database.prepare(
        "INSERT INTO tool_calls (name, parameters, result, error, started_at, completed_at, duration_ms) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
    return Ok{};
  }
  insert_ = WARREN_TRY(database.prepare(
      "INSERT INTO tool_calls (name, parameters, result, error, started_at, completed_at, duration_ms, status) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?4 IS NULL THEN 'success' ELSE 'error' END)"));
  insert_pending_ = WARREN_TRY(
      database.prepare("INSERT INTO tool_calls (name, parameters, status, started_at) VALUES (?, ?, 'pending', ?)"));
  finish_ = WARREN_TRY(database.prepare(
      "UPDATE tool_calls SET status = ?2, result = ?3, error = ?4, completed_at = max(started_at, ?5), "
      "duration_ms = (max(started_at, ?5) - started_at) * 1000 "
      "WHERE id = ?1 AND status = 'pending' AND completed_at IS NULL"));
  finish_details_ = WARREN_TRY(database.prepare(
      "UPDATE wr_tool_call SET duration_ns = CASE WHEN ?2 >= started_ns THEN ?2 - started_ns END WHERE id = ?1"));
  return Ok{};
}

// The end of a call, on the record with the outcome that the call had.
template <class Change>
auto ToolCalls::recorded_end(std::string_view name, bool has_failed, const Change& change) -> decltype(change()) {
  if (!store_.audit().source()) return change();
  AuditEvent event = store_.audit().event_of_source("tool_end", name);
  if (has_failed) {
    event.ok = false;
    event.err = "tool_failed";
  }
  return store_.audit().change(std::move(event), change);
}

Result<std::int64_t> ToolCalls::record(const CallRecord& call) {
  return recorded_end(call.name, present(call.error).has_value(), [&] { return insert_call(call); });
}

Result<std::int64_t> ToolCalls::insert_call(const CallRecord& call) {
  WARREN_TRY(check_record(call));
  std::int64_t duration_ms = WARREN_TRY(duration_ms_of(call));
  Transaction change = WARREN_TRY(Transaction::begin(store_.database(), Access::kWrite));
  insert_.bind(1, call.name).bind(2, present(call.parameters)).bind(3, present(call.result));
  insert_.bind(4, present(call.error)).bind(5, call.started_at).bind(6, call.completed_at).bind(7, duration_ms);
  WARREN_TRY(insert_.run());
  std::int64_t id = store_.database().last_insert_id();
  if (call.duration_ns || call.details != CallDetails()) {
    WARREN_TRY(write_details(id, std::nullopt, call.duration_ns, call.details));
  }
  store_.journal()->note_tool_call(id);
  WARREN_TRY(change.commit());
  return id;
}

Result<std::int64_t> ToolCalls::start(std::string_view name, const std::optional<std::string>& parameters,
                                      const CallDetails& details) {
  return store_.audit().change_of_source("tool_start", name, std::nullopt,
                                         [&] { return insert_pending(name, parameters, details); });
}

Result<std::int64_t> ToolCalls::insert_pending(std::string_view name, const std::optional<std::string>& parameters,
                                               const CallDetails& details) {
  WARREN_TRY(check_name_of_tool(name));
  WARREN_TRY(check_json("'parameters' text", present(parameters)));
  Transaction change = WARREN_TRY(Transaction::begin(store_.database(), Access::kWrite));
  if (!store_.schema().tool_calls_have_status) {
    return Error(Code::kUnsupported, "this agent's trail cannot store calls that are not finished",
                 "record calls when they end, or run `warren migrate` first");
  }
  Timestamp now = store_.clock().now();
  WARREN_TRY(insert_pending_.bind(1, name).bind(2, present(parameters)).bind(3, now.seconds).run());
  std::int64_t id = store_.database().last_insert_id();
  // Wall time, not monotonic: the call may end in another process, or after a reboot.
  WARREN_TRY(write_details(id, nanoseconds_of(now), std::nullopt, details));
  store_.journal()->note_tool_call(id);
  WARREN_TRY(change.commit());
  return id;
}

Status ToolCalls::write_details(std::int64_t id, std::optional<std::int64_t> started_ns,
                                std::optional<std::int64_t> duration_ns, const CallDetails& details) {
  std::optional<std::string_view> session;
  if (!details.session.empty()) session = details.session;
  insert_details_.bind(1, id).bind(2, started_ns).bind(3, duration_ns).bind(4, session);
  insert_details_.bind(5, details.parent_id).bind(6, details.cost_usd);
  return insert_details_.bind(7, details.tokens_in).bind(8, details.tokens_out).run();
}

Status ToolCalls::succeed(std::int64_t id, const std::optional<std::string>& result) {
  WARREN_TRY(check_json("'result' text", present(result)));
  return finish(id, CallStatus::kSuccess, present(result), std::nullopt);
}

Status ToolCalls::fail(std::int64_t id, std::string_view error) {
  WARREN_TRY(check_size("'error' text", error));
  return finish(id, CallStatus::kError, std::nullopt, error);
}

Status ToolCalls::finish(std::int64_t id, CallStatus status, const std::optional<std::string_view>& result,
                         const std::optional<std::string_view>& error) {
  std::string name;  // for the audit trail
  if (store_.audit().source()) {
    Result<ToolCall> call = find_call(id);
    name = call.ok() ? std::move(call->name) : fmt::format("#{}", id);
  }
  return recorded_end(name, status == CallStatus::kError, [&] { return finish_pending(id, status, result, error); });
}

Status ToolCalls::finish_pending(std::int64_t id, CallStatus status, const std::optional<std::string_view>& result,
                                 const std::optional<std::string_view>& error) {
  Transaction change = WARREN_TRY(Transaction::begin(store_.database(), Access::kWrite));
  Timestamp now = store_.clock().now();
  bool was_pending = false;
  if (store_.schema().tool_calls_have_status) {
    finish_.bind(1, id).bind(2, name_of(status)).bind(3, result).bind(4, error).bind(5, now.seconds);
    WARREN_TRY(finish_.run());
    was_pending = store_.database().changes() > 0;
  }
  if (!was_pending) {
    WARREN_TRY(find_call(id));  // kNotFound
    return Error(Code::kConflict, fmt::format("tool call {} is already finished", id));
  }
  WARREN_TRY(finish_details_.bind(1, id).bind(2, nanoseconds_of(now)).run());
  store_.journal()->note_tool_call(id);
  return change.commit();
}

Result<ToolCall> ToolCalls::get(std::int64_t id) {
  WARREN_TRY(store_.audit().note_read_of_source("tool_list", fmt::format("#{}", id)));
  return find_call(id);
}

Result<ToolCall> ToolCalls::find_call(std::int64_t id) {
  if (!store_.schema().has_tool_calls) return no_call(id);
  auto guard = store_.database().lock();
  Rows rows = find_.bind(1, id).rows();
  if (!WARREN_TRY(rows.next())) return no_call(id);
  return call_from(rows);
}

Result<std::vector<ToolCall>> ToolCalls::list(const CallFilter& filter) {
  std::vector<ToolCall> found;
  WARREN_TRY(store_.audit().note_read_of_source("tool_list", filter.name.value_or("")));
  constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  if (!store_.schema().has_tool_calls || filter.since == kNever) return found;
  std::optional<std::string_view> status;
  if (filter.status) status = name_of(*filter.status);
  auto guard = store_.database().lock();
  Statement& query = filter.name ? list_by_name_ : list_;
  query.bind(1, filter.since ? *filter.since + 1 : kEver).bind(2, status);
  query.bind(3, std::uint64_t{filter.limit});  // SIZE_MAX is bound as -1, SQLite's "no limit"
  if (filter.name) query.bind(4, *filter.name);
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    ToolCall call = WARREN_TRY(call_from(rows));
    found.push_back(std::move(call));
  }
  return found;
}

Result<std::vector<CallStats>> ToolCalls::stats() {
  std::vector<CallStats> found;
  WARREN_TRY(store_.audit().note_read_of_source("tool_list", ""));
  if (!store_.schema().has_tool_calls) return found;
  auto guard = store_.database().lock();
  Rows rows = stats_.rows();
  while (WARREN_TRY(rows.next())) found.push_back(stats_from(rows));
  return found;
}

Result<std::uint64_t> ToolCalls::count_ended() {
  if (!store_.schema().has_tool_calls) return 0;
  auto guard = store_.database().lock();
  Statement count =
      WARREN_TRY(store_.database().prepare("SELECT count(*) FROM tool_calls WHERE completed_at IS NOT NULL"));
  auto ended = WARREN_TRY(count.find_integer());
  return static_cast<std::uint64_t>(ended.value_or(0));
}

Result<std::optional<CallStats>> ToolCalls::stats_for(std::string_view name) {
  WARREN_TRY(store_.audit().note_read_of_source("tool_list", name));
  if (!store_.schema().has_tool_calls) return std::optional<CallStats>();
  auto guard = store_.database().lock();
  Rows rows = stats_for_.bind(1, name).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<CallStats>();
  return std::optional(stats_from(rows));
}

}  // namespace warren
