#include "pg/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "os/error.h"
#include "pg/libpq.h"

namespace warren::pg {
namespace {

using Instant = std::chrono::steady_clock::time_point;

constexpr int kVersionMin = 120000;

// Settings that every session relies on. An acknowledged commit must be on disk; a session whose client hangs or is
// gone must not block others forever.
constexpr const char* kSession =
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', "
    "'local');"
    "SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '60s'; SET statement_timeout = 0;"
    "SET default_transaction_isolation = 'read committed'; SET client_min_messages = warning";

std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '\n' || c == '\t' ? ' ' : c;
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

Code code_of(std::string_view state) {
  struct Row {
    std::string_view prefix;
    Code code;
  };
  constexpr Row kTable[] = {
      {"08", Code::kUnavailable}, {"57P", Code::kUnavailable}, {"57014", Code::kTimeout},  {"53100", Code::kNoSpace},
      {"53", Code::kLimit},       {"40", Code::kBusy},         {"55P03", Code::kBusy},     {"23", Code::kConflict},
      {"28", Code::kDenied},      {"42501", Code::kDenied},    {"25006", Code::kReadOnly}, {"22", Code::kInvalid},
      {"3D000", Code::kNotFound}, {"42P01", Code::kNotFound},  {"42", Code::kInternal},
  };
  for (const Row& row : kTable) {
    if (state.starts_with(row.prefix)) return row.code;
  }
  return Code::kIo;
}

void drop_notice(void*, const PGresult*) {}

// Finds the five characters of the SQLSTATE in "FATAL:  28P01: message", from `from` on.
std::size_t find_state(std::string_view text, std::size_t from) {
  constexpr std::string_view kBefore = ":  ";
  for (std::size_t at = text.find(kBefore, from); at != text.npos; at = text.find(kBefore, at + 1)) {
    std::string_view word = text.substr(at + kBefore.size(), 7);
    bool is_state = word.size() == 7 && word.substr(5) == ": ";
    for (char c : word.substr(0, 5)) is_state = is_state && (is_digit(c) || (c >= 'A' && c <= 'Z'));
    if (is_state) return at + kBefore.size();
  }
  return text.npos;
}

bool is_passing(std::string_view state) {
  return state.starts_with("08") || state.starts_with("53") || state.starts_with("57");
}

// Classifies libpq's own messages, which have no SQLSTATE. They are in English, since we set no locale.
Code code_of_words(std::string_view text) {
  auto has = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (has("invalid ") || has("could not match")) return Code::kInvalid;  // an error in the address
  bool is_about_tls = has("certificate") || (has("SSL") && !has("SSL SYSCALL"));
  return is_about_tls || has("no password supplied") || has("authentication") ? Code::kDenied : Code::kUnavailable;
}

}  // namespace

// If several addresses were tried, one that answered counts more than those that did not.
Error connect_error(std::string_view text) {
  std::string shown(text.substr(0, text.find("\nLOCATION:")));
  Code code = code_of_words(text);
  bool has_state = false;
  for (std::size_t at = find_state(shown, 0); at != shown.npos; at = find_state(shown, at)) {
    std::string state = shown.substr(at, 5);
    shown.erase(at, 7);
    if (has_state && is_passing(state)) continue;
    code = is_passing(state) ? Code::kUnavailable : code_of(state);
    has_state = true;
  }
  return {code, fmt::format("PostgreSQL: {}", one_line(shown))};
}

Connection::Connection(const Libpq& pq, std::string url, ConnectionOptions options)
    : pq_(pq), url_(std::move(url)), options_(options) {}

Connection::~Connection() {
  if (handle_ != nullptr) pq_.PQfinish(handle_);
}

bool is_postgres_url(std::string_view text) {
  return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

// libpq's message about an invalid address would quote it, with its password.
Status check_postgres_url(const std::string& url) {
  const Libpq& pq = *WARREN_TRY(load_libpq());
  char* why = nullptr;
  PQconninfoOption* parsed = is_postgres_url(url) ? pq.PQconninfoParse(url.c_str(), &why) : nullptr;
  if (why != nullptr) pq.PQfreemem(why);
  if (parsed == nullptr) {
    return Error(Code::kInvalid, "the address is not a valid PostgreSQL URL", "postgres://USER@HOST:PORT/DATABASE");
  }
  pq.PQconninfoFree(parsed);
  return Ok{};
}

Result<std::unique_ptr<Connection>> Connection::open(std::string url, ConnectionOptions options) {
  WARREN_TRY(check_postgres_url(url));
  const Libpq& pq = *WARREN_TRY(load_libpq());
  std::unique_ptr<Connection> connection(new Connection(pq, std::move(url), options));
  WARREN_TRY(connection->connect());
  return connection;
}

Error Connection::not_connected() const {
  return {Code::kUnavailable, fmt::format("PostgreSQL{}: the connection was lost", name_)};
}

Error Connection::lose(std::string_view why) {
  Error error(Code::kUnavailable, fmt::format("PostgreSQL{}: {}", name_, one_line(why)));
  drop();
  return error;
}

// The only place where the connection is closed after an error.
void Connection::drop() {
  if (handle_ != nullptr) pq_.PQfinish(std::exchange(handle_, nullptr));
  expected_.clear();
  in_doubt_ = in_doubt_ || is_committing_;
  in_transaction_ = false;
  is_committing_ = false;
}

Status Connection::reconnect() {
  drop();
  return connect();
}

Status Connection::connect() {
  Instant until = std::chrono::steady_clock::now() + options_.connect_timeout;
  Status started = start(until);
  if (started.ok()) started = introduce();
  if (!started.ok() && handle_ != nullptr) pq_.PQfinish(std::exchange(handle_, nullptr));
  return started;
}

Status Connection::start(Instant until) {
  // Settings in the address override the ones before it; the ones after it override the address.
  const char* keys[] = {"application_name", "keepalives_idle", "keepalives_interval", "keepalives_count",
                        "tcp_user_timeout", "dbname",          "client_encoding",     nullptr};
  const char* values[] = {options_.program.c_str(), "20", "5", "3", "30000", url_.c_str(), "UTF8", nullptr};
  handle_ = pq_.PQconnectStartParams(keys, values, 1);
  if (handle_ == nullptr) return Error(Code::kLimit, "PostgreSQL: out of memory");
  pq_.PQsetNoticeReceiver(handle_, drop_notice, nullptr);
  pq_.PQsetErrorVerbosity(handle_, PQERRORS_VERBOSE);  // until connected: without it the SQLSTATE is missing
  for (PostgresPollingStatusType next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK;) {
    if (pq_.PQstatus(handle_) == CONNECTION_BAD || next == PGRES_POLLING_FAILED) {
      Error why = connect_error(pq_.PQerrorMessage(handle_));
      drop();
      return why;
    }
    WARREN_TRY(wait(next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until));
    next = pq_.PQconnectPoll(handle_);
  }
  pq_.PQsetErrorVerbosity(handle_, PQERRORS_DEFAULT);
  ++session_;
  name_ = fmt::format(" at {}/{}", pq_.PQhost(handle_), pq_.PQdb(handle_));
  return Ok{};
}

Status Connection::introduce() {
  if (pq_.PQserverVersion(handle_) < kVersionMin) {
    return Error(Code::kUnsupported, fmt::format("PostgreSQL{} is older than version 12", name_));
  }
  const char* encoding = pq_.PQparameterStatus(handle_, "server_encoding");
  std::string_view word = encoding == nullptr ? "" : encoding;
  if (word != "UTF8" && word != "SQL_ASCII") {
    return Error(Code::kUnsupported, fmt::format("PostgreSQL{} has the encoding {}", name_, word),
                 "create the database with ENCODING 'UTF8'");
  }
  if (pq_.PQsetnonblocking(handle_, 1) != 0) return lose(pq_.PQerrorMessage(handle_));
  WARREN_TRY(run_script(kSession));
  if (options_.is_read_only) WARREN_TRY(run_script("SET default_transaction_read_only = on"));
  if (pq_.PQenterPipelineMode(handle_) != 1) return lose(pq_.PQerrorMessage(handle_));
  return Ok{};
}

// Not by PQexec, which waits as long as the server likes.
Status Connection::run_script(const std::string& script) {
  if (pq_.PQsendQuery(handle_, script.c_str()) != 1) return lose(pq_.PQerrorMessage(handle_));
  WARREN_TRY(flush());
  std::optional<Error> first;
  for (;;) {
    pg_result* got = WARREN_TRY(next_result());
    if (got == nullptr) break;
    Reply reply(pq_, got);
    std::optional<Error> failed = error_in(got);
    if (failed && !first) first = std::move(failed);
    if (pq_.PQstatus(handle_) == CONNECTION_BAD) return lose(pq_.PQerrorMessage(handle_));
  }
  return first ? Status(*std::move(first)) : Status(Ok{});
}

Status Connection::execute(const std::string& script) {
  if (handle_ == nullptr) return not_connected();
  WARREN_TRY(receive_all(nullptr));
  if (pq_.PQexitPipelineMode(handle_) != 1) return lose(pq_.PQerrorMessage(handle_));
  Status done = run_script(script);
  if (handle_ != nullptr && pq_.PQenterPipelineMode(handle_) != 1) return lose(pq_.PQerrorMessage(handle_));
  return done;
}

int Connection::add_statement(std::string sql) {
  std::string name = fmt::format("s{}", statements_.size());
  statements_.push_back({std::move(sql), std::move(name)});
  return static_cast<int>(statements_.size()) - 1;
}

Status Connection::send_prepare(int statement) {
  Prepared& one = statements_.at(static_cast<std::size_t>(statement));
  if (one.session == session_) return Ok{};
  if (pq_.PQsendPrepare(handle_, one.name.c_str(), one.sql.c_str(), 0, nullptr) != 1) {
    return lose(pq_.PQerrorMessage(handle_));
  }
  one.session = session_;
  expected_.push_back({What::kPrepare, statement});
  return Ok{};
}

Status Connection::prepare_all() {
  if (handle_ == nullptr) return not_connected();
  for (int i = 0; i < static_cast<int>(statements_.size()); ++i) WARREN_TRY(send_prepare(i));
  return receive_all(nullptr);
}

Status Connection::send_text(const char* sql, What what) {
  if (pq_.PQsendQueryParams(handle_, sql, 0, nullptr, nullptr, nullptr, nullptr, 0) != 1) {
    return lose(pq_.PQerrorMessage(handle_));
  }
  expected_.push_back({what});
  return Ok{};
}

Status Connection::queue(int statement, std::span<const Value> values, std::int64_t* id) {
  if (handle_ == nullptr) return not_connected();
  WARREN_TRY(send_prepare(statement));
  pointers_.clear();
  lengths_.clear();
  formats_.clear();
  for (const Value& value : values) {
    bool is_null = value.kind == Value::Kind::kNull;
    pointers_.push_back(is_null ? nullptr : value.bytes.data() == nullptr ? "" : value.bytes.data());
    lengths_.push_back(static_cast<int>(value.bytes.size()));
    formats_.push_back(value.kind == Value::Kind::kNumber ? 0 : 1);
  }
  const Prepared& one = statements_[static_cast<std::size_t>(statement)];
  if (pq_.PQsendQueryPrepared(handle_, one.name.c_str(), static_cast<int>(values.size()), pointers_.data(),
                              lengths_.data(), formats_.data(), 0) != 1) {
    return lose(pq_.PQerrorMessage(handle_));
  }
  expected_.push_back({What::kQueued, statement, id});
  return Ok{};
}

Result<Reply> Connection::ask(int statement, std::span<const Value> values) {
  WARREN_TRY(queue(statement, values));
  expected_.back().what = What::kAsked;
  Reply reply;
  WARREN_TRY(receive_all(&reply));
  return reply;
}

Result<std::shared_ptr<std::optional<Reply>>> Connection::ask_ahead(int statement, std::span<const Value> values) {
  WARREN_TRY(queue(statement, values));
  expected_.back().ahead = std::make_shared<std::optional<Reply>>();
  return expected_.back().ahead;
}

Status Connection::begin() {
  if (handle_ == nullptr) return not_connected();
  if (in_transaction_) return Error(Code::kInternal, "a transaction was started inside another");
  in_doubt_ = false;
  WARREN_TRY(send_text("BEGIN", What::kQueued));
  in_transaction_ = true;
  return Ok{};
}

Status Connection::commit() {
  if (handle_ == nullptr) return not_connected();
  is_committing_ = true;
  Status sent = send_text("COMMIT", What::kCommit);
  Status done = sent.ok() ? receive_all(nullptr) : std::move(sent);
  if (!done.ok() && handle_ != nullptr) {
    is_committing_ = false;  // the server refused
    rollback();
    return done;
  }
  is_committing_ = false;
  in_transaction_ = false;
  return done;
}

void Connection::rollback() {
  if (!in_transaction_ || handle_ == nullptr) return;
  for (Expected& expected : expected_) expected.id = nullptr;  // its owner may be gone
  receive_all(nullptr).ignore("the failure was reported, or no longer matters");
  in_transaction_ = false;
  if (handle_ == nullptr) return;
  Status sent = send_text("ROLLBACK", What::kQueued);
  if (sent.ok()) receive_all(nullptr).ignore("then the connection is gone, and the transaction with it");
}

int Connection::fd() const { return handle_ == nullptr ? -1 : pq_.PQsocket(handle_); }

Result<std::vector<Notification>> Connection::take_notifications() {
  if (handle_ == nullptr) return not_connected();
  if (pq_.PQconsumeInput(handle_) != 1) return lose(pq_.PQerrorMessage(handle_));
  std::vector<Notification> found;
  while (PGnotify* one = pq_.PQnotifies(handle_)) {
    found.push_back({one->relname, one->extra, one->be_pid == pq_.PQbackendPID(handle_)});
    pq_.PQfreemem(one);
  }
  return found;
}

Status Connection::wait(short events, Instant until) {
  if (deadline_) until = std::min(until, *deadline_);
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd one{pq_.PQsocket(handle_), events, 0};
    int ready = left.count() <= 0 ? 0 : ::poll(&one, 1, static_cast<int>(left.count()));
    if (ready > 0) return Ok{};
    if (ready == 0) return lose("the server does not answer");
    if (errno != EINTR) return system_error(errno, "poll");
  }
}

// Reads while it sends: the server stops reading when its answers are not consumed.
Status Connection::flush() {
  Instant until = std::chrono::steady_clock::now() + options_.answer_timeout;
  for (;;) {
    int left = pq_.PQflush(handle_);
    if (left == 0) return Ok{};
    if (left < 0) return lose(pq_.PQerrorMessage(handle_));
    WARREN_TRY(wait(POLLIN | POLLOUT, until));
    if (pq_.PQconsumeInput(handle_) != 1) return lose(pq_.PQerrorMessage(handle_));
  }
}

Result<pg_result*> Connection::next_result() {
  Instant until = std::chrono::steady_clock::now() + options_.answer_timeout;
  while (pq_.PQisBusy(handle_) != 0) {
    WARREN_TRY(wait(POLLIN, until));
    if (pq_.PQconsumeInput(handle_) != 1) return lose(pq_.PQerrorMessage(handle_));
  }
  return pq_.PQgetResult(handle_);
}

std::optional<Error> Connection::error_in(const pg_result* result) const {
  ExecStatusType status = pq_.PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return std::nullopt;
  if (status == PGRES_PIPELINE_ABORTED) return Error(Code::kIo, "an earlier statement failed");
  const char* state = pq_.PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* text = pq_.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const char* detail = pq_.PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
  std::string message = fmt::format("PostgreSQL{}: {}", name_, one_line(text == nullptr ? "it failed" : text));
  if (detail != nullptr) message += fmt::format(" ({})", one_line(detail));
  return Error(code_of(state == nullptr ? "" : state), std::move(message));
}

// Receives one answer, in order.
std::optional<Error> Connection::take(const Expected& expected, Reply* reply) {
  Result<pg_result*> got = next_result();
  if (!got.ok()) return std::move(got).take_error();
  if (*got == nullptr) return lose(pq_.PQerrorMessage(handle_));
  Reply answer(pq_, *got);
  std::optional<Error> failed = error_in(answer.get());
  if (failed && expected.what == What::kPrepare) statements_[static_cast<std::size_t>(expected.statement)].session = 0;
  if (!failed && expected.what == What::kCommit && std::string_view(pq_.PQcmdStatus(answer.get())) != "COMMIT") {
    failed = Error(Code::kIo, "PostgreSQL rolled the transaction back");
  }
  if (expected.what == What::kCommit) is_committing_ = false;  // answered, whatever the outcome
  if (!failed && expected.id != nullptr && answer.row_count() > 0) *expected.id = answer.integer(0, 0);
  if (!failed && expected.what == What::kAsked && reply != nullptr) *reply = std::move(answer);
  if (!failed && expected.ahead) expected.ahead->emplace(std::move(answer));
  bool is_over = pq_.PQstatus(handle_) == CONNECTION_BAD;
  if (is_over) {
    if (failed && expected.what == What::kCommit) is_committing_ = true;  // the end of the session is not an answer
    return lose(failed ? failed->message() : pq_.PQerrorMessage(handle_));
  }
  Result<pg_result*> end = next_result();  // each answer ends with a null
  if (!end.ok()) return std::move(end).take_error();
  if (*end != nullptr) pq_.PQclear(*end);
  return failed;
}

// Waits until everything sent so far is answered. Returns the first failure: the statements after it were not executed.
Status Connection::receive_all(Reply* reply) {
  if (expected_.empty()) return Ok{};
  if (pq_.PQpipelineSync(handle_) != 1) return lose(pq_.PQerrorMessage(handle_));
  WARREN_TRY(flush());
  std::optional<Error> first;
  while (!expected_.empty()) {
    Expected expected = expected_.front();
    expected_.pop_front();
    std::optional<Error> failed = take(expected, reply);
    if (failed && !first) first = std::move(failed);
    if (handle_ == nullptr) return *std::move(first);
  }
  pg_result* sync = WARREN_TRY(next_result());
  bool is_sync = sync != nullptr && pq_.PQresultStatus(sync) == PGRES_PIPELINE_SYNC;
  if (sync != nullptr) pq_.PQclear(sync);
  if (!is_sync) return lose("the server answered out of order");
  return first ? Status(*std::move(first)) : Status(Ok{});
}

}  // namespace warren::pg
