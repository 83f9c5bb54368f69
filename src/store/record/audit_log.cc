#include "store/record/audit_log.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/no_wait.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/side_change.h"
#include "db/transaction.h"
#include "store/record/journal.h"

namespace warren {
namespace {

// As SQLite keeps it, too: a table that differs is not Warren's.
constexpr char kAuditTableText[] = R"sql(CREATE TABLE wr_audit (
  seq INTEGER PRIMARY KEY,
  at_us INTEGER NOT NULL,
  agent_id TEXT NOT NULL,
  op TEXT NOT NULL,
  path TEXT NOT NULL,
  to_path TEXT,
  size_bytes INTEGER,
  ok INTEGER NOT NULL,
  err TEXT,
  trace_id TEXT,
  door TEXT NOT NULL,
  space TEXT NOT NULL,
  session TEXT,
  end_bytes INTEGER NOT NULL,
  key_id TEXT NOT NULL,
  prev BLOB NOT NULL,
  hash BLOB NOT NULL
))sql";
constexpr Sql kAuditTable = kAuditTableText;

constexpr std::size_t kDeferredMax = 64;
constexpr std::int64_t kDeferredNs = 1'000'000'000;
constexpr std::uint64_t kTrailBytesMax = std::uint64_t{1} << 60;
constexpr std::int64_t kTrailRowsMax = std::int64_t{1} << 60;

std::optional<std::string_view> or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
}

bool is_content(std::string_view op) { return op == "write" || op == "append"; }

bool is_by_the_same(const AuditEvent& before, const AuditEvent& next) {
  return before.path == next.path && before.agent == next.agent && before.door == next.door &&
         before.space == next.space && before.session == next.session && before.trace == next.trace;
}

// Writes to one file that follow each other, and its creation before them, are one event with the sum of their sizes.
bool continues(const AuditEvent& before, const AuditEvent& next) {
  if (!is_content(next.op) || (before.op != next.op && before.op != "create") || !before.ok || !next.ok) return false;
  return is_by_the_same(before, next);
}

// A refusal costs whoever is refused nothing, and us a row: in a batch, the same one again is not another event.
bool is_refused_again(const AuditEvent& before, const AuditEvent& next) {
  return !before.ok && !next.ok && before.op == next.op && before.err == next.err && before.to == next.to &&
         is_by_the_same(before, next);
}

// Another thread repeats the call: nothing was done.
bool will_be_repeated(const Error& error) { return error.code() == Code::kBusy && NoWait::is_hit(); }

Error not_our_table(std::string_view what) {
  return Error(Code::kCorrupt, fmt::format("{}: what is recorded in the audit trail could be lost", what),
               "`warren sql ID --write` can remove it; `warren audit ID verify` says whether rows are missing");
}

}  // namespace

std::string_view name_of(AuditLevel level) {
  switch (level) {
    case AuditLevel::kDefault: return "default";
    case AuditLevel::kOff: return "off";
    case AuditLevel::kOn: return "on";
    case AuditLevel::kReads: return "reads";
  }
  return "?";
}

namespace {
thread_local AuditLog::Scope* innermost_scope = nullptr;
}  // namespace

AuditLog::Scope::Scope(AuditLog& log, std::vector<AuditEvent> events)
    : log_(log), events_(std::move(events)), outer_(innermost_scope) {
  innermost_scope = this;
}

AuditLog::Scope::~Scope() { innermost_scope = outer_; }

AuditLog::AuditLog(Database& database, Journal* journal, Clock& clock)
    : database_(database), journal_(journal), clock_(clock) {}

AuditLog::~AuditLog() {
  {
    std::lock_guard lock(deferred_mutex_);
    is_ending_ = true;
  }
  deferred_changed_.notify_all();
  if (flusher_.joinable()) flusher_.join();
}

Result<bool> AuditLog::has_table() {
  Statement find = WARREN_TRY(database_.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_audit'"));
  std::optional<std::int64_t> found = WARREN_TRY(find.find_integer());
  return found.has_value();
}

Status AuditLog::prepare() {
  if (is_prepared_ || !WARREN_TRY(has_table())) return Ok{};
  head_ = WARREN_TRY(database_.prepare("SELECT seq, end_bytes, key_id, hash FROM wr_audit ORDER BY seq DESC LIMIT 1"));
  after_ = WARREN_TRY(database_.prepare(
      "SELECT seq, at_us, agent_id, op, path, to_path, size_bytes, ok, err, trace_id, door, space, session, end_bytes, "
      "key_id, prev, hash FROM wr_audit WHERE seq > ? ORDER BY seq LIMIT ?"));
  end_ = WARREN_TRY(database_.prepare("SELECT end_bytes FROM wr_audit WHERE seq = ?"));
  hash_ = WARREN_TRY(database_.prepare("SELECT hash FROM wr_audit WHERE seq = ?"));
  if (!database_.is_read_only()) {
    insert_ = WARREN_TRY(database_.prepare(
        "INSERT INTO wr_audit (seq, at_us, agent_id, op, path, to_path, size_bytes, ok, err, trace_id, door, space, "
        "session, end_bytes, key_id, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  }
  is_prepared_ = true;
  return Ok{};
}

// Anything else there, such as a trigger, a view of that name or a unique index, could swallow rows or make commits
// fail.
Status AuditLog::check_table() {
  Transaction look = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
  Statement find = WARREN_TRY(database_.prepare(
      "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = 'wr_audit' COLLATE NOCASE OR name = 'wr_audit' "
      "COLLATE NOCASE OR type = 'trigger'"));  // one on any table could remove rows of this one
  Rows rows = find.rows();
  while (WARREN_TRY(rows.next())) {
    if (rows.text(0) == "table" && rows.text(1) == "wr_audit" && rows.text(2) == kAuditTableText) continue;
    return not_our_table(
        fmt::format("the agent file has a {} {} that is not Warren's", printable(rows.text(0)), quote(rows.text(1))));
  }
  return Ok{};
}

Status AuditLog::enable(LoadAuditKeys load, std::string agent) {
  if (database_.is_read_only()) return Error(Code::kReadOnly, "an agent that is open read-only records nothing");
  AuditKeys keys = WARREN_TRY(load());  // may run a command: not while others wait for us
  auto guard = database_.lock();
  load_ = std::move(load);
  agent_ = std::move(agent);
  WARREN_TRY(use_keys(std::move(keys)));
  WARREN_TRY(check_table());
  AuditHead last;
  bool is_there = false;
  {
    Transaction look = WARREN_TRY(Transaction::begin(database_, Access::kRead));
    is_there = WARREN_TRY(has_table());
    last = WARREN_TRY(read_head());
  }
  if (last.seq < 0 || last.seq > kTrailRowsMax || last.end_bytes > kTrailBytesMax) {
    return not_our_table(fmt::format("the audit trail has a row {} that is not Warren's", last.seq));
  }
  if (!is_there) {
    Transaction change = WARREN_TRY(Transaction::begin(database_, Access::kWrite));
    if (!WARREN_TRY(has_table())) WARREN_TRY(database_.execute(kAuditTable));
    if (journal_ != nullptr) journal_->note_audit();
    WARREN_TRY(change.commit());
    WARREN_TRY(prepare());
  }
  if (!is_prepared_) return not_our_table("the agent file has something else named 'wr_audit'");
  is_enabled_ = true;
  return Ok{};
}

Status AuditLog::use_keys(AuditKeys keys) {
  if (keys.empty()) return Error(Code::kInvalid, "there is no key for the audit trail");
  keys_ = std::move(keys);
  hmacs_.clear();
  return Ok{};
}

// Another program may have dropped the table meanwhile. The changes of a batch must not be lost for that; verify finds
// that rows are missing. Once for each commit by others.
Status AuditLog::restore_table() {
  std::uint64_t epoch = database_.foreign_epoch();
  if (epoch == std::exchange(seen_epoch_, epoch) || WARREN_TRY(has_table())) return Ok{};
  Statement make = WARREN_TRY(database_.prepare(kAuditTable));
  return make.run();
}

AuditEvent AuditLog::event_of_source(std::string_view op, std::string_view path) const {
  AuditEvent event;
  event.at_us = clock_.now_us();
  event.agent = source_->agent;
  event.op = op;
  event.path = path;
  event.trace = source_->trace;
  event.door = source_->door;
  event.space = source_->space;
  event.session = source_->session;
  return event;
}

Status AuditLog::note_read_of_source(std::string_view op, std::string_view path) {
  if (!source_ || !source_->records_reads) return Ok{};
  WARREN_TRY(check());
  std::vector<AuditEvent> events;
  events.push_back(event_of_source(op, path));
  return defer(std::move(events));
}

// After an operation: nothing if its transaction has taken the event along.
Status AuditLog::settle(AuditEvent event, bool is_taken, const Error* error) {
  if (error == nullptr && is_taken) return Ok{};
  if (error != nullptr) {
    if (will_be_repeated(*error)) return Ok{};
    event.ok = false;
    event.err = audit_error_name(error->code());
  }
  std::vector<AuditEvent> events;
  events.push_back(std::move(event));
  return append(std::move(events));
}

HmacSha256& AuditLog::hmac_of(const AuditKey& key) {
  auto found = hmacs_.find(key.id);
  if (found == hmacs_.end()) found = hmacs_.emplace(key.id, HmacSha256(as_bytes(key.bytes))).first;
  return found->second;
}

// The switch.

Result<AuditLevel> AuditLog::level() {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
  Statement has_meta =
      WARREN_TRY(database_.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_meta'"));
  if (!WARREN_TRY(has_meta.find_integer())) return AuditLevel::kDefault;
  Statement find = WARREN_TRY(database_.prepare("SELECT value FROM wr_meta WHERE key='audit'"));
  std::optional<std::int64_t> value = WARREN_TRY(find.find_integer());
  if (!value || *value == 0) return AuditLevel::kDefault;
  bool is_known = *value > 0 && *value <= static_cast<int>(AuditLevel::kReads);
  return is_known ? static_cast<AuditLevel>(*value) : AuditLevel::kReads;
}

Result<bool> AuditLog::is_level_known() {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
  Statement has_meta =
      WARREN_TRY(database_.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_meta'"));
  if (!WARREN_TRY(has_meta.find_integer())) return true;
  Statement find = WARREN_TRY(database_.prepare(
      "SELECT 1 FROM wr_meta WHERE key='audit' AND (typeof(value) <> 'integer' OR value NOT BETWEEN 0 AND 3)"));
  std::optional<std::int64_t> found = WARREN_TRY(find.find_integer());
  return !found;
}

Status AuditLog::set_level(AuditLevel level, AuditEvent event) {
  Transaction change = WARREN_TRY(Transaction::begin(database_, Access::kWrite));
  Statement put = WARREN_TRY(database_.prepare("INSERT OR REPLACE INTO wr_meta (key, value) VALUES ('audit', ?)"));
  WARREN_TRY(put.bind(1, static_cast<int>(level)).run());
  std::vector<AuditEvent> events;
  events.push_back(std::move(event));
  Scope scope(*this, std::move(events));
  return change.commit();
}

// Appending.

Status AuditLog::append(std::vector<AuditEvent> events) {
  if (events.empty()) return Ok{};
  {
    auto guard = database_.lock();
    if (database_.is_in_write()) {  // stored with the rest of it
      std::move(events.begin(), events.end(), std::back_inserter(noted_));
      return Ok{};
    }
  }
  // What was done or refused stays so if a batch is lost: it is not a part of it.
  if (database_.is_grouped()) return defer(std::move(events));
  bool was_hit = NoWait::is_hit();
  Scope scope(*this, std::move(events));
  Result<Transaction> change = Transaction::begin(database_, Access::kSharedWrite);
  if (!change.ok() && will_be_repeated(change.error())) {
    if (!was_hit) NoWait::forget_hit();
    std::lock_guard lock(deferred_mutex_);
    std::move(scope.events_.begin(), scope.events_.end(), std::back_inserter(deferred_));
    if (deferred_since_ns_ == 0) deferred_since_ns_ = clock_.monotonic_ns();
    return Ok{};
  }
  Transaction running = WARREN_TRY(std::move(change));
  return running.commit();
}

Status AuditLog::defer(std::vector<AuditEvent> events) {
  bool is_due = false;
  {
    std::lock_guard lock(deferred_mutex_);
    std::int64_t now = clock_.monotonic_ns();
    if (deferred_.empty()) deferred_since_ns_ = now;
    std::move(events.begin(), events.end(), std::back_inserter(deferred_));
    is_due = database_.is_grouped() || deferred_.size() >= kDeferredMax || now - deferred_since_ns_ >= kDeferredNs;
    if (!database_.is_grouped() && !flusher_.joinable()) flusher_ = std::thread([this] { flush_in_time(); });
  }
  if (!is_due) deferred_changed_.notify_all();
  return is_due ? flush() : Status(Ok{});
}

// A process that reads and then rests must not keep its events to itself. In a mount, the keeper ends batches.
void AuditLog::flush_in_time() {
  std::unique_lock lock(deferred_mutex_);
  while (!is_ending_) {
    deferred_changed_.wait(lock, [this] { return is_ending_ || !deferred_.empty(); });
    deferred_changed_.wait_for(lock, std::chrono::nanoseconds(kDeferredNs), [this] { return is_ending_; });
    if (is_ending_ || deferred_.empty()) continue;
    lock.unlock();
    flush().ignore("the next operation is refused with it");
    lock.lock();
  }
}

Status AuditLog::flush() {
  {
    std::lock_guard lock(deferred_mutex_);
    if (deferred_.empty()) return Ok{};
  }
  {
    auto guard = database_.lock();
    if (database_.is_in_transaction()) return Ok{};  // its end, or the next one, takes them
  }
  bool was_hit = NoWait::is_hit();
  auto try_now = [this]() -> Status {
    Transaction change = WARREN_TRY(Transaction::begin(database_, Access::kSharedWrite));
    return change.commit();
  };
  Status done = try_now();
  if (!done.ok() && will_be_repeated(done.error())) {  // the next one takes them
    if (!was_hit) NoWait::forget_hit();
    return Ok{};
  }
  std::lock_guard lock(deferred_mutex_);
  failure_ = done.ok() ? std::nullopt : std::optional(done.error());
  return done.ok() ? Status(Ok{}) : std::move(done).within("record what was done in the audit trail");
}

void AuditLog::note(std::string_view op, std::string_view path, std::string_view door, std::optional<std::string> to) {
  if (!is_enabled_) return;
  AuditEvent event;
  event.at_us = clock_.now_us();
  event.agent = agent_;
  event.op = op;
  event.path = path;
  event.to = std::move(to);
  event.door = door;
  event.space = "kernel";
  noted_.push_back(std::move(event));
}

Status AuditLog::check() {
  bool has_failed = false;
  {
    std::lock_guard lock(deferred_mutex_);
    has_failed = failure_.has_value();
  }
  if (has_failed) WARREN_TRY(flush());
  if (!database_.batch().has_failed()) return Ok{};
  auto guard = database_.lock();
  const std::optional<Error>& why = database_.batch().failure();
  if (!why) return Ok{};
  return Error(why->code(), fmt::format("it cannot be recorded in the audit trail: {}", why->message()));
}

void AuditLog::add_pending(AuditEvent event) {
  if (!pending_.empty() && continues(pending_.back(), event)) {
    AuditEvent& before = pending_.back();
    before.size_bytes = before.size_bytes.value_or(0) + event.size_bytes.value_or(0);
    before.op = std::move(event.op);
    return;
  }
  if (!pending_.empty() && is_refused_again(pending_.back(), event)) return;
  pending_.push_back(std::move(event));
}

// Under the database's lock, in a transaction of this thread that is about to take effect.
void AuditLog::take_events_of_thread() {
  if (SideChange::is_active()) return;
  Scope* scope = innermost_scope;
  while (scope != nullptr && &scope->log_ != this) scope = scope->outer_;
  if (scope == nullptr || scope->is_taken_) return;
  scope->is_taken_ = true;
  for (AuditEvent& event : scope->events_) add_pending(std::move(event));
  scope->events_.clear();
}

void AuditLog::take_noted() {
  for (AuditEvent& event : noted_) add_pending(std::move(event));
  noted_.clear();
}

// Deferred events are not part of the change that takes them along: if that is lost, they wait for the next.
void AuditLog::take_deferred() {
  std::lock_guard lock(deferred_mutex_);
  for (const AuditEvent& event : deferred_) add_pending(event);
  std::move(deferred_.begin(), deferred_.end(), std::back_inserter(taken_));
  deferred_.clear();
  deferred_since_ns_ = 0;
}

void AuditLog::return_deferred() {
  std::lock_guard lock(deferred_mutex_);
  deferred_.insert(deferred_.begin(), std::make_move_iterator(taken_.begin()), std::make_move_iterator(taken_.end()));
  if (!deferred_.empty() && deferred_since_ns_ == 0) deferred_since_ns_ = clock_.monotonic_ns();
  taken_.clear();
}

void AuditLog::change_done() {
  if (!is_enabled_) return;
  take_deferred();
  take_noted();
  take_events_of_thread();
}

Status AuditLog::before_commit() {
  if (!is_enabled_) return Ok{};
  take_deferred();
  bool is_batch = database_.batch().is_open();
  if (!is_batch) take_noted();
  if (!is_batch) take_events_of_thread();
  if (pending_.empty()) return Ok{};
  Status written = restore_table();
  if (written.ok()) written = write_pending();
  if (written.ok() || is_batch) return written;  // a batch keeps its changes, and theirs
  pending_.clear();
  return_deferred();
  return written;
}

// Events leave pending_ one by one: in a batch, a row that SQLite has is repeated by the database if the commit fails.
Status AuditLog::write_pending() {
  AuditHead head = WARREN_TRY(next_to(has_written_ ? written_ : committed_));
  const AuditKey* key = WARREN_TRY(key_after(head));
  while (!pending_.empty()) {
    WARREN_TRY(write_row(head, pending_.front(), *key));
    pending_.pop_front();
  }
  written_ = std::move(head);
  has_written_ = true;
  if (journal_ != nullptr) journal_->note_audit();
  return Ok{};
}

// What the next row follows. If somebody has removed or replaced the last row that we wrote, the next one follows it
// all the same, so that `verify` finds the gap: we do not sign that the row was never there.
Result<AuditHead> AuditLog::next_to(const AuditHead& ours) {
  AuditHead head = WARREN_TRY(read_head());
  if (ours.seq == 0 || (head.seq == ours.seq && head.hash == ours.hash)) return head;
  if (head.seq <= ours.seq) return ours;
  Rows rows = hash_.bind(1, ours.seq).rows();  // others have appended
  bool is_there = WARREN_TRY(rows.next())
  &&std::ranges::equal(rows.blob(0), ours.hash);
  if (!is_there) head.hash = ours.hash;
  return head;
}

// The key for the next row. After another one, that change is an event under the key before, if we have it.
Result<const AuditKey*> AuditLog::key_after(AuditHead& head) {
  if (head.seq == 0 || head.key == keys_.front().id) return &keys_.front();
  // Without the newest keys the trail goes on with those that we have: a batch must not be lost for want of them.
  // Asked once for each key: it may be a command, and others wait.
  bool is_known = std::ranges::any_of(keys_, [&](const AuditKey& key) { return key.id == head.key; });
  if (!is_known && head.key != foreign_key_) {
    foreign_key_ = head.key;
    Result<AuditKeys> newest = load_();
    if (newest.ok()) use_keys(std::move(newest).take_value()).ignore("the keys from before are used");
  }
  if (head.key == keys_.front().id) return &keys_.front();
  auto old = std::find_if(keys_.begin(), keys_.end(), [&](const AuditKey& key) { return key.id == head.key; });
  AuditEvent event{.at_us = clock_.now_us(),
                   .agent = pending_.front().agent,
                   .op = std::string(kKeyChangedOp),
                   .path = keys_.front().id,
                   .to = {},
                   .size_bytes = {},
                   .ok = old != keys_.end(),
                   .err = old != keys_.end() ? "" : "old_key_missing",
                   .trace = {},
                   .door = "audit",
                   .space = "kernel",
                   .session = {}};
  WARREN_TRY(write_row(head, event, old != keys_.end() ? *old : keys_.front()));
  return &keys_.front();
}

// The event is the same afterwards, whether it was stored or not.
Status AuditLog::write_row(AuditHead& head, AuditEvent& event, const AuditKey& key) {
  if (head.seq == INT64_MAX) return Error(Code::kCorrupt, "the audit trail has a row with the largest number");
  AuditRow row{
      .event = std::move(event), .seq = head.seq + 1, .end_bytes = 0, .key = key.id, .prev = head.hash, .hash = {}};
  row.end_bytes = head.end_bytes + audit_line_bytes(row);
  row.hash = hash_audit_row(row, hmac_of(key));
  const AuditEvent& stored = row.event;
  insert_.bind(1, row.seq)
      .bind(2, stored.at_us)
      .bind(3, std::string_view(stored.agent))
      .bind(4, std::string_view(stored.op))
      .bind(5, std::string_view(stored.path))
      .bind(6, stored.to ? std::optional<std::string_view>(*stored.to) : std::nullopt)
      .bind(7, stored.size_bytes)
      .bind(8, stored.ok ? 1 : 0)
      .bind(9, or_null(stored.err))
      .bind(10, or_null(stored.trace))
      .bind(11, std::string_view(stored.door))
      .bind(12, std::string_view(stored.space))
      .bind(13, or_null(stored.session))
      .bind(14, row.end_bytes)
      .bind(15, std::string_view(row.key))
      .bind(16, Bytes(row.prev))
      .bind(17, Bytes(row.hash));
  Status inserted = insert_.run();
  event = std::move(row.event);
  WARREN_TRY(std::move(inserted));
  if (database_.changes() != 1) return not_our_table("a row of the audit trail was not stored");
  head = {.seq = row.seq, .end_bytes = row.end_bytes, .key = row.key, .hash = row.hash};
  return Ok{};
}

void AuditLog::after_commit() {
  taken_.clear();
  if (!std::exchange(has_written_, false)) return;
  committed_ = written_;
  has_appended_ = true;
  has_news_ = true;
}

void AuditLog::after_rollback() {
  pending_.clear();
  noted_.clear();
  return_deferred();
  has_written_ = false;
}

bool AuditLog::take_news() { return std::exchange(has_news_, false); }

// Reading.

Result<AuditHead> AuditLog::read_head() {
  WARREN_TRY(prepare());
  AuditHead head;
  if (!is_prepared_) return head;
  Rows rows = head_.rows();
  if (!WARREN_TRY(rows.next())) return head;
  head.seq = rows.integer(0);
  head.end_bytes = static_cast<std::uint64_t>(rows.integer(1));
  head.key = rows.text(2);
  Bytes hash = rows.blob(3);
  // A row that somebody damaged is chained as it is: `verify` names it.
  if (hash.size() == head.hash.size()) std::copy(hash.begin(), hash.end(), head.hash.begin());
  return head;
}

Result<AuditHead> AuditLog::head() {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
  return read_head();
}

StoredAuditRow AuditLog::read_row(const Rows& rows) const {
  StoredAuditRow stored;
  AuditRow& row = stored.row;
  AuditEvent& event = row.event;
  row.seq = rows.integer(0);
  auto expect = [&](int column, std::string_view name, ColumnType type, bool may_be_null) {
    ColumnType found = rows.type(column);
    if (found == type || (may_be_null && found == ColumnType::kNull) || !stored.problem.empty()) return;
    stored.problem = found == ColumnType::kNull ? fmt::format("its {} is missing", name)
                                                : fmt::format("its {} is not what a row has there", name);
  };
  expect(1, "time", ColumnType::kInteger, false);
  expect(2, "agent_id", ColumnType::kText, false);
  expect(3, "op", ColumnType::kText, false);
  expect(4, "path", ColumnType::kText, false);
  expect(5, "to_path", ColumnType::kText, true);
  expect(6, "size_bytes", ColumnType::kInteger, true);
  expect(7, "ok", ColumnType::kInteger, false);
  expect(8, "err", ColumnType::kText, true);
  expect(9, "trace_id", ColumnType::kText, true);
  expect(10, "door", ColumnType::kText, false);
  expect(11, "space", ColumnType::kText, false);
  expect(12, "session", ColumnType::kText, true);
  expect(13, "end_bytes", ColumnType::kInteger, false);
  expect(14, "key_id", ColumnType::kText, false);
  expect(15, "prev", ColumnType::kBlob, false);
  expect(16, "hash", ColumnType::kBlob, false);
  event.at_us = rows.integer(1);
  event.agent = rows.text(2);
  event.op = rows.text(3);
  event.path = rows.text(4);
  if (!rows.is_null(5)) event.to = std::string(rows.text(5));
  if (!rows.is_null(6)) event.size_bytes = static_cast<std::uint64_t>(rows.integer(6));
  event.ok = rows.integer(7) != 0;
  if (stored.problem.empty() && rows.integer(7) != 0 && rows.integer(7) != 1) {
    stored.problem = "its ok is neither 0 nor 1";
  }
  for (int column : {8, 9, 12}) {
    bool is_empty = rows.type(column) == ColumnType::kText && rows.text(column).empty();
    if (is_empty && stored.problem.empty()) stored.problem = "it has an empty text where a row of ours has none";
  }
  event.err = rows.text(8);
  event.trace = rows.text(9);
  event.door = rows.text(10);
  event.space = rows.text(11);
  event.session = rows.text(12);
  row.end_bytes = static_cast<std::uint64_t>(rows.integer(13));
  row.key = rows.text(14);
  auto take_hash = [&](int column, std::string_view name, AuditHash& out) {
    Bytes bytes = rows.blob(column);
    if (bytes.size() == out.size()) std::copy(bytes.begin(), bytes.end(), out.begin());
    else if (stored.problem.empty()) stored.problem = fmt::format("its {} does not have 32 bytes", name);
  };
  take_hash(15, "prev", row.prev);
  take_hash(16, "hash", row.hash);
  return stored;
}

Result<std::vector<StoredAuditRow>> AuditLog::read_after(std::int64_t seq, std::size_t max) {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
  WARREN_TRY(prepare());
  std::vector<StoredAuditRow> found;
  if (!is_prepared_) return found;
  Rows rows = after_.bind(1, seq).bind(2, std::uint64_t{max}).rows();
  while (WARREN_TRY(rows.next())) found.push_back(read_row(rows));
  return found;
}

Result<std::uint64_t> AuditLog::end_of(std::int64_t seq) {
  if (seq <= 0) return std::uint64_t{0};
  std::optional<std::int64_t> end = WARREN_TRY(end_.bind(1, seq).find_integer());
  if (!end) {
    return Error(Code::kCorrupt, fmt::format("row {} of the audit trail is missing", seq),
                 "`warren audit ID verify` says what else is wrong");
  }
  return static_cast<std::uint64_t>(*end);
}

// Rows are numbered without gaps and their lines follow each other, so the first one is found by bisection.
Result<std::string> AuditLog::read_lines(std::uint64_t offset, std::size_t length) {
  constexpr std::size_t kRowsAtOnce = 256;
  constexpr std::size_t kLineBytesMax = kRowsAtOnce * 65'536;
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kSharedRead));
  AuditHead last = WARREN_TRY(read_head());
  if (offset >= last.end_bytes) return std::string();
  std::int64_t low = 1;
  std::int64_t high = last.seq;
  while (low < high) {
    std::int64_t middle = low + (high - low) / 2;
    if (WARREN_TRY(end_of(middle)) > offset) high = middle;
    else low = middle + 1;
  }
  std::uint64_t begins = WARREN_TRY(end_of(low - 1));
  std::string text;
  std::int64_t at = low - 1;
  while (begins + text.size() < offset + length) {
    std::vector<StoredAuditRow> rows = WARREN_TRY(read_after(at, kRowsAtOnce));
    if (rows.empty()) break;
    for (const StoredAuditRow& row : rows) {
      text += audit_line(row.row);
      at = row.row.seq;
      if (begins + text.size() >= offset + length) break;
    }
    if (text.size() > length + kLineBytesMax) {
      return Error(Code::kCorrupt, "the audit trail's rows do not say where their lines end",
                   "`warren audit ID verify` says what else is wrong");
    }
  }
  std::uint64_t skipped = std::min<std::uint64_t>(offset > begins ? offset - begins : 0, text.size());
  return text.substr(static_cast<std::size_t>(skipped), length);
}

}  // namespace warren
