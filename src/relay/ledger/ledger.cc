#include "relay/ledger/ledger.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"
#include "os/files/host_files.h"
#include "pg/connection.h"
#include "relay/ledger/ledger_columns.h"
#include "relay/protocol/names.h"
#include "relay/shared/carried.h"

namespace warren::relay {
namespace {

constexpr std::array<std::string_view, 9> kStates = {"pending", "delivered", "read", "acked", "nacked",
                                                     "stored",  "held",      "dead", "routed"};

// The first four tables are those of the specification, to the letter.
constexpr Sql kLedgerTables = R"(
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT UNIQUE NOT NULL,
    agent_name TEXT NOT NULL,
    direction TEXT NOT NULL,
    file_path TEXT NOT NULL,
    file_size INTEGER NOT NULL,
    file_mtime_ns INTEGER NOT NULL,
    file_inode INTEGER,
    checksum TEXT,
    status TEXT NOT NULL DEFAULT 'pending',
    message_type TEXT,
    target TEXT,
    discovered_at INTEGER NOT NULL,
    processed_at INTEGER,
    retry_count INTEGER DEFAULT 0,
    last_error TEXT,
    UNIQUE(file_path)
);
CREATE INDEX IF NOT EXISTS idx_messages_status ON messages(status);
CREATE INDEX IF NOT EXISTS idx_messages_agent ON messages(agent_name, direction);
CREATE INDEX IF NOT EXISTS idx_messages_discovered ON messages(discovered_at);
CREATE TABLE IF NOT EXISTS orchestrator_state (
    key TEXT PRIMARY KEY,
    value TEXT,
    updated_at INTEGER
);
CREATE TABLE IF NOT EXISTS agents (
    name TEXT PRIMARY KEY,
    registered_at INTEGER NOT NULL,
    last_seen_at INTEGER,
    pid INTEGER,
    status TEXT DEFAULT 'active'
);
CREATE TABLE IF NOT EXISTS pending_operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_type TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    completed_at INTEGER
);
CREATE TABLE IF NOT EXISTS deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL,
    recipient TEXT NOT NULL,
    state TEXT NOT NULL,
    inbox_name TEXT NOT NULL,
    receipt INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL DEFAULT 0,
    deadline INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    updated_at INTEGER NOT NULL,
    home TEXT NOT NULL DEFAULT '',
    UNIQUE(message_id, recipient)
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_deliveries_inbox ON deliveries(recipient, inbox_name);
CREATE INDEX IF NOT EXISTS idx_deliveries_due ON deliveries(home, id) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS idx_deliveries_routed ON deliveries(home, id) WHERE state = 'routed';
DROP INDEX IF EXISTS idx_deliveries_waiting;
CREATE TABLE IF NOT EXISTS subscriptions (
    channel TEXT NOT NULL,
    agent TEXT NOT NULL,
    subscribed_at INTEGER NOT NULL,
    PRIMARY KEY (channel, agent)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL,
    recipient TEXT NOT NULL,
    reason TEXT NOT NULL,
    died_at INTEGER NOT NULL,
    closed_at INTEGER,
    resolution TEXT
);
CREATE INDEX IF NOT EXISTS idx_dead_letters_open ON dead_letters(id) WHERE closed_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_dead_letters_message ON dead_letters(message_id);
)";

constexpr Sql kUnreadIndex =
    "CREATE INDEX IF NOT EXISTS idx_deliveries_unread ON deliveries(recipient, state, id) WHERE " WARREN_UNREAD;

std::optional<std::string_view> text_or_null(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

std::string_view name_of(DeliveryState state) { return kStates.at(static_cast<std::size_t>(state)); }

Result<DeliveryState> parse_state(std::string_view word) {
  for (std::size_t i = 0; i < kStates.size(); ++i) {
    if (kStates[i] == word) return static_cast<DeliveryState>(i);
  }
  return Error(Code::kCorrupt, fmt::format("ledger: unknown state {}", quote(word)));
}

Result<std::unique_ptr<Ledger>> Ledger::open(const std::string& where, LedgerUse use, Clock& clock, Home home) {
  std::unique_ptr<LedgerEngine> db;
  bool is_shared = pg::is_postgres_url(where);
  EngineUse access = use == LedgerUse::kRead ? EngineUse::kRead : EngineUse::kWrite;
  if (is_shared) {
    db = WARREN_TRY(open_postgres(where, use == LedgerUse::kServe ? EngineUse::kCreate : access, home.id));
  } else {
    bool exists = WARREN_TRY(find_host_link(where))
    .has_value();
    if (!exists && use != LedgerUse::kServe) {
      return Error(Code::kNotFound, fmt::format("there is no ledger at {}", quote(where)),
                   "`warren relay up` creates one");
    }
    db = WARREN_TRY(open_sqlite(where, exists ? access : EngineUse::kCreate));
  }
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(db), clock));
  if (use == LedgerUse::kServe) WARREN_TRY(ledger->create_tables_patiently());
  else if (!WARREN_TRY(ledger->db_->has_table("deliveries"))) {
    return Error(Code::kNotFound, "the relay's ledger has no tables yet", "`warren relay up` creates them");
  }
  WARREN_TRY(ledger->prepare_messages());
  WARREN_TRY(ledger->prepare_others());
  WARREN_TRY(ledger->prepare_operations());
  WARREN_TRY(ledger->prepare_agents());
  WARREN_TRY(ledger->prepare_attachments());
  WARREN_TRY(ledger->prepare_sweep());
  if (is_shared) WARREN_TRY(ledger->share(use, std::move(home)));
  else WARREN_TRY(ledger->prepare_arrivals(use));
  if (!is_shared && use == LedgerUse::kServe) WARREN_TRY(ledger->prepare_inboxes());
  return ledger;
}

Status Ledger::create_tables() {
  auto transaction = WARREN_TRY(begin());
  if (db_->is_shared()) WARREN_TRY(Homes::create_tables(*db_));
  WARREN_TRY(db_->execute(kLedgerTables));
  WARREN_TRY(db_->execute(kUnreadIndex));
  WARREN_TRY(create_operation_tables());
  WARREN_TRY(create_agent_tables());
  WARREN_TRY(create_attachment_tables());
  if (db_->is_shared()) WARREN_TRY(CarriedAttachments::create_tables(*db_));
  else WARREN_TRY(create_arrival_tables());
  if (!db_->is_shared()) WARREN_TRY(add_inbox_column());
  return transaction.commit();
}

Status Ledger::prepare_all(std::span<const Prepared> statements) {
  for (const auto& [statement, sql] : statements) *statement = WARREN_TRY(db_->prepare(sql));
  return Ok{};
}

Status Ledger::prepare_messages() {
  const Prepared statements[] = {
      {&add_message_,
       "INSERT INTO messages(message_id, agent_name, direction, file_path, file_size, file_mtime_ns, file_inode,"
       " checksum, status, message_type, target, discovered_at, last_error) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"},
      {&set_state_, "UPDATE deliveries SET state = ?2, last_error = ?3, updated_at = ?4 WHERE id = ?1"},
      {&set_retry_,
       "UPDATE deliveries SET state = 'pending', attempts = ?2, next_at = ?3, deadline = ?4, last_error = ?5,"
       " updated_at = ?6 WHERE id = ?1"},
      {&set_pending_,
       "UPDATE deliveries SET recipient = ?2, state = 'pending', attempts = 0, next_at = 0, deadline = ?3, last_error ="
       " NULL, updated_at = ?4, inbox_name = ?5, home = ?6 WHERE id = ?1"},
      {&update_status_,
       "UPDATE messages SET processed_at = ?2, status = CASE WHEN EXISTS (SELECT 1 FROM deliveries d WHERE"
       " d.message_id = ?1 AND d.state = 'dead') THEN 'failed' ELSE 'completed' END WHERE message_id = ?1 AND NOT"
       " EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = ?1 AND (d.state = 'pending' OR d.state = 'stored' OR"
       " d.state = 'held' OR d.state = 'routed'))"},
      {&states_, "SELECT state FROM deliveries WHERE message_id = ?1"},
      {&finish_, "UPDATE messages SET processed_at = ?2, status = ?3 WHERE message_id = ?1"},
      {&add_dead_, "INSERT INTO dead_letters(message_id, recipient, reason, died_at) VALUES (?,?,?,?)"},
      {&close_dead_,
       "UPDATE dead_letters SET closed_at = ?2, resolution = ?3 WHERE id = ?1 AND closed_at IS NULL RETURNING id"},
      {&find_message_, "SELECT " WARREN_MESSAGE " FROM messages WHERE message_id = ?"},
      {&find_delivery_, "SELECT " WARREN_DELIVERY " FROM deliveries WHERE id = ?"},
      {&find_in_inbox_, "SELECT " WARREN_DELIVERY " FROM deliveries WHERE recipient = ? AND inbox_name = ?"},
      {&find_to_, "SELECT " WARREN_DELIVERY " FROM deliveries WHERE message_id = ? AND recipient = ?"},
      {&list_deliveries_, "SELECT " WARREN_DELIVERY " FROM deliveries WHERE message_id = ? ORDER BY recipient"},
      {&due_,
       "SELECT " WARREN_DELIVERY " FROM deliveries WHERE state = 'pending' AND home = ?5 AND id > ?2 AND (next_at"
       " <= ?1 OR next_at - 60000 > ?1) AND attempts >= ?4 ORDER BY id LIMIT ?3"},
      {&next_due_,
       "SELECT min(next_at) FROM deliveries WHERE state = 'pending' AND home = ?2 AND attempts > 0 AND next_at > ?1 AND"
       " next_at - 60000 <= ?1"},
      {&in_state_,
       "SELECT " WARREN_DELIVERY " FROM deliveries WHERE recipient = ?1 AND state = ?2 AND id > ?3 AND " WARREN_UNREAD
       " ORDER BY id LIMIT ?4"},
      {&newest_, "SELECT inbox_name FROM deliveries WHERE id = (SELECT max(id) FROM deliveries)"},
  };
  add_delivery_ = WARREN_TRY(db_->prepare_insert(
      "INSERT INTO deliveries(message_id, recipient, state, inbox_name, receipt, attempts, next_at, deadline,"
      " last_error, updated_at, home) VALUES (?,?,?,?,?,?,?,?,?,?,?)"));
  return prepare_all(statements);
}

Status Ledger::prepare_others() {
  const Prepared statements[] = {
      {&list_agents_, "SELECT name, registered_at, last_seen_at, status FROM agents ORDER BY name"},
      {&put_agent_,
       "INSERT INTO agents(name, registered_at, last_seen_at, status) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(name) DO"
       " UPDATE SET last_seen_at = CASE WHEN agents.last_seen_at > excluded.last_seen_at THEN agents.last_seen_at ELSE"
       " excluded.last_seen_at END, status = excluded.status"},
      {&touch_agent_, "UPDATE agents SET last_seen_at = ?2 WHERE name = ?1"},
      {&list_subscriptions_, "SELECT channel, agent FROM subscriptions ORDER BY channel, agent"},
      {&subscribe_, "INSERT INTO subscriptions(channel, agent, subscribed_at) VALUES (?,?,?) ON CONFLICT DO NOTHING"},
      {&unsubscribe_, "DELETE FROM subscriptions WHERE channel = ? AND agent = ?"},
      {&list_dead_,
       "SELECT id, message_id, recipient, reason, died_at FROM dead_letters WHERE closed_at IS NULL ORDER BY id"
       " LIMIT ?"},
      {&find_dead_,
       "SELECT id, message_id, recipient, reason, died_at FROM dead_letters WHERE closed_at IS NULL AND id = ?"},
      {&list_messages_, "SELECT " WARREN_MESSAGE " FROM messages WHERE id < ? ORDER BY id DESC LIMIT ?"},
      {&count_messages_, "SELECT status, count(*) FROM messages GROUP BY status"},
      {&count_deliveries_, "SELECT state, count(*) FROM deliveries GROUP BY state"},
      {&count_dead_, "SELECT count(*) FROM dead_letters WHERE closed_at IS NULL"},
      {&is_closed_, "SELECT 1 FROM dead_letters WHERE closed_at IS NOT NULL AND id = ?"},
      {&wrong_statuses_,
       "SELECT message_id, status FROM messages m WHERE status IN ('processing', 'completed') AND (status ="
       " 'processing') <> EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.message_id AND d.state IN"
       " ('pending', 'stored', 'held', 'routed')) LIMIT 1000"},
      {&is_needed_,
       "SELECT EXISTS (SELECT 1 FROM deliveries WHERE message_id = ?1 AND state IN ('pending', 'stored', 'held', "
       "'routed')) OR"
       " EXISTS (SELECT 1 FROM dead_letters WHERE message_id = ?1 AND closed_at IS NULL)"},
      {&find_value_, "SELECT value FROM orchestrator_state WHERE key = ?"},
      {&put_value_,
       "INSERT INTO orchestrator_state(key, value, updated_at) VALUES (?,?,?) ON CONFLICT(key) DO UPDATE SET value ="
       " excluded.value, updated_at = excluded.updated_at"},
  };
  return prepare_all(statements);
}

Status Ledger::prepare_shared() {
  const Prepared statements[] = {
      {&lock_dead_, "SELECT id FROM dead_letters WHERE id = ?1 FOR UPDATE"},
      {&claim_routed_,
       "SELECT " WARREN_DELIVERY ", (SELECT content FROM message_bodies b WHERE b.message_id = deliveries.message_id)"
       " FROM deliveries WHERE home = ?1 AND state = 'routed' AND strpos(?3, ',' || recipient || ',') = 0 AND "
       "strpos(?3,"
       " ',' || split_part(message_id, '/', 1) || '>' || recipient || ',') = 0 ORDER BY id LIMIT ?2 FOR UPDATE SKIP"
       " LOCKED"},
      {&reroute_,
       "UPDATE deliveries SET state = 'routed', home = ?2, attempts = 0, next_at = 0, deadline = ?3, last_error = NULL,"
       " updated_at = ?4 WHERE id = ?1"},
      // One query: an agent that is just being registered must not be seen without its home and taken for ours.
      {&list_agents_,
       "SELECT name, registered_at, last_seen_at, status, coalesce(home, '') FROM agents LEFT JOIN agent_homes ON agent"
       " = name ORDER BY name"},
      {&operations_,
       "SELECT id, operation_type, payload FROM pending_operations WHERE completed_at IS NULL AND id IN (SELECT"
       " operation_id FROM operation_homes WHERE home = ?3) AND id > ?1 ORDER BY id LIMIT ?2"},
      {&remove_operations_,
       "WITH gone AS (DELETE FROM pending_operations WHERE id IN (SELECT id FROM pending_operations WHERE completed_at "
       "<"
       " ?1 ORDER BY id LIMIT ?2) RETURNING id) DELETE FROM operation_homes WHERE operation_id IN (SELECT id FROM"
       " gone)"},
  };
  return prepare_all(statements);
}

Status Ledger::add_message(const MessageRow& m) {
  if (keeps_arrivals_) {
    add_message_.bind(14, m.number != 0 ? m.number : ++message_number_);
    add_message_.bind(15, m.processed_at_us != 0 ? std::optional(m.processed_at_us) : std::nullopt);
  }
  return add_message_.bind(1, m.id)
      .bind(2, m.agent)
      .bind(3, m.direction)
      .bind(4, m.path)
      .bind(5, m.size)
      .bind(6, m.mtime_ns)
      .bind(7, m.inode)
      .bind(8, m.checksum)
      .bind(9, m.status)
      .bind(10, m.type)
      .bind(11, m.target)
      .bind(12, m.discovered_at_us)
      .bind(13, text_or_null(m.error))
      .run();
}

Status Ledger::add_delivery(Delivery& d) {
  if (keeps_arrivals_) add_delivery_.bind(12, d.id != 0 ? d.id : ++delivery_number_);
  WARREN_TRY(add_delivery_.bind(1, d.message_id)
                 .bind(2, d.recipient)
                 .bind(3, name_of(d.state))
                 .bind(4, d.inbox_name)
                 .bind(5, d.wants_receipt ? 1 : 0)
                 .bind(6, d.attempts)
                 .bind(7, d.next_at_ms)
                 .bind(8, d.deadline_ms)
                 .bind(9, text_or_null(d.error))
                 .bind(10, clock_.now_us())
                 .bind(11, d.home.empty() ? home() : d.home)
                 .run_for(d.id));
  if (homes_ && d.state == DeliveryState::kRouted) homes_->wake(d.home);
  if (homes_ && d.state == DeliveryState::kHeld) homes_->note_agents_changed();  // so that the lead's home looks for it
  return Ok{};
}

Status Ledger::set_state(const Delivery& delivery, DeliveryState state, std::string_view error) {
  return set_state_.bind(1, delivery.id)
      .bind(2, name_of(state))
      .bind(3, text_or_null(error))
      .bind(4, clock_.now_us())
      .run();
}

Status Ledger::set_retry(const Delivery& d) {
  return set_retry_.bind(1, d.id)
      .bind(2, d.attempts)
      .bind(3, d.next_at_ms)
      .bind(4, d.deadline_ms)
      .bind(5, text_or_null(d.error))
      .bind(6, clock_.now_us())
      .run();
}

Status Ledger::set_pending(const Delivery& d) {
  return set_pending_.bind(1, d.id)
      .bind(2, d.recipient)
      .bind(3, d.deadline_ms)
      .bind(4, clock_.now_us())
      .bind(5, d.inbox_name)
      .bind(6, home())
      .run();
}

// A ledger that is not shared does without update_status_: a subquery in an UPDATE would create a temporary table for
// each message.
Status Ledger::update_status(std::string_view message_id) {
  if (homes_) {
    homes_->note_status_update(message_id);
    return Ok{};
  }
  bool is_dead = false;
  Rows rows = states_.bind(1, message_id).rows();
  while (WARREN_TRY(rows.next())) {
    DeliveryState state = WARREN_TRY(parse_state(rows.text(0)));
    bool is_open = state == DeliveryState::kPending || state == DeliveryState::kStored ||
                   state == DeliveryState::kHeld || state == DeliveryState::kRouted;
    if (is_open) return Ok{};
    is_dead = is_dead || state == DeliveryState::kDead;
  }
  std::string_view status = is_dead ? "failed" : "completed";
  return finish_.bind(1, message_id).bind(2, clock_.now_us()).bind(3, status).run();
}

Status Ledger::bury(const Delivery& delivery, std::string_view reason) {
  WARREN_TRY(set_state(delivery, DeliveryState::kDead, reason));
  return add_dead_.bind(1, delivery.message_id)
      .bind(2, delivery.recipient)
      .bind(3, reason)
      .bind(4, clock_.now_us())
      .run();
}

Status Ledger::bury_message(std::string_view message_id, std::string_view reason) {
  return add_dead_.bind(1, message_id).bind(2, "").bind(3, reason).bind(4, clock_.now_us()).run();
}

Status Ledger::close_dead_letter(std::int64_t id, std::string_view resolution) {
  std::optional<std::int64_t> closed =
      WARREN_TRY(close_dead_.bind(1, id).bind(2, clock_.now_us()).bind(3, resolution).find_integer());
  return closed ? Status(Ok{}) : Status(Error(Code::kConflict, fmt::format("dead letter {} is closed", id)));
}

Status Ledger::put_agent(const AgentRow& agent) {
  if (homes_) homes_->note_agents_changed();
  return put_agent_.bind(1, agent.name)
      .bind(2, agent.registered_at_us)
      .bind(3, agent.last_seen_at_us)
      .bind(4, agent.status)
      .run();
}

Status Ledger::touch_agent(std::string_view name) { return touch_agent_.bind(1, name).bind(2, clock_.now_us()).run(); }

Status Ledger::subscribe(std::string_view channel, std::string_view agent) {
  if (homes_) homes_->note_agents_changed();
  return subscribe_.bind(1, channel).bind(2, agent).bind(3, clock_.now_us()).run();
}

Status Ledger::unsubscribe(std::string_view channel, std::string_view agent) {
  if (homes_) homes_->note_agents_changed();
  return unsubscribe_.bind(1, channel).bind(2, agent).run();
}

Status Ledger::put_value(std::string_view key, std::string_view value) {
  std::string name = scoped(key);
  return put_value_.bind(1, name).bind(2, value).bind(3, clock_.now_us()).run();
}

}  // namespace warren::relay
