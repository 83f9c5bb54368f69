#include "relay/shared/homes.h"

#include <array>

#include <fmt/format.h>

namespace warren::relay {
namespace {

constexpr Sql kHomeTables = R"(
CREATE TABLE IF NOT EXISTS relay_homes (
    id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    newest_ns INTEGER NOT NULL DEFAULT 0,
    label TEXT NOT NULL,
    started_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS agent_homes (
    agent TEXT PRIMARY KEY,
    home TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS message_bodies (
    message_id TEXT PRIMARY KEY,
    content BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS operation_homes (
    operation_id INTEGER PRIMARY KEY,
    home TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS ledger_versions (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL
);
)";

}  // namespace

// Only one relay at a time creates the tables. The lock's number is arbitrary.
Status Homes::create_tables(LedgerEngine& engine) {
  WARREN_TRY(engine.execute("SELECT pg_advisory_xact_lock(7305808869231650925)"));
  return engine.execute(kHomeTables);
}

Result<std::unique_ptr<Homes>> Homes::open(LedgerEngine& engine, Home home, Clock& clock) {
  std::unique_ptr<Homes> homes(new Homes(std::move(home), clock));
  WARREN_TRY(homes->prepare(engine));
  return homes;
}

Status Homes::prepare(LedgerEngine& engine) {
  struct Prepared {
    Statement* statement;
    Sql sql;
  };
  const Prepared statements[] = {
      {&begin_serving_,
       "INSERT INTO relay_homes(id, epoch, label, started_at) VALUES (?1, 1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET"
       " epoch = relay_homes.epoch + 1, label = excluded.label, started_at = excluded.started_at RETURNING epoch"},
      {&fence_, "SELECT epoch FROM relay_homes WHERE id = ?1 FOR UPDATE"},
      {&put_newest_, "UPDATE relay_homes SET newest_ns = ?2 WHERE id = ?1"},
      {&newest_, "SELECT newest_ns FROM relay_homes WHERE id = ?1"},
      {&put_version_,
       "INSERT INTO ledger_versions(name, version) VALUES ('agents', 1) ON CONFLICT (name) DO UPDATE SET version ="
       " ledger_versions.version + 1"},
      {&version_, "SELECT version FROM ledger_versions WHERE name = 'agents'"},
      {&notify_, "SELECT pg_notify(?1, '')"},
      {&labels_, "SELECT id, label FROM relay_homes"},
      {&find_, "SELECT home FROM agent_homes WHERE agent = ?1"},
      {&claim_,
       "INSERT INTO agent_homes(agent, home) VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET home = excluded.home"
       " WHERE agent_homes.home = excluded.home OR EXISTS (SELECT 1 FROM agents a WHERE a.name = excluded.agent AND"
       " a.status = 'terminated') RETURNING 1"},
      {&move_,
       "INSERT INTO agent_homes(agent, home) VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET home = excluded.home"},
      {&move_deliveries_,
       "UPDATE deliveries SET home = ?2 WHERE recipient = ?1 AND state IN ('routed', 'stored') AND home <> ?2"},
      {&under_way_, "SELECT count(*) FROM deliveries WHERE recipient = ?1 AND state = 'pending' AND home <> ?2"},
      {&put_body_,
       "INSERT INTO message_bodies(message_id, content) VALUES (?1, ?2) ON CONFLICT (message_id) DO UPDATE SET content "
       "="
       " excluded.content"},
      {&find_body_, "SELECT content FROM message_bodies WHERE message_id = ?1"},
      {&own_operation_, "INSERT INTO operation_homes(operation_id, home) VALUES (?1, ?2)"},
      {&lock_message_, "SELECT id FROM messages WHERE message_id = ?1 FOR UPDATE"},
      {&drop_body_,
       "DELETE FROM message_bodies WHERE message_id = ?1 AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id "
       "="
       " ?1 AND d.state IN ('pending', 'stored', 'held', 'routed'))"},
  };
  for (const auto& [statement, sql] : statements) *statement = WARREN_TRY(engine.prepare(sql));
  return Ok{};
}

Status Homes::serve() {
  Rows rows = begin_serving_.bind(1, home_.id).bind(2, home_.label).bind(3, clock_.now_us()).rows();
  if (!WARREN_TRY(rows.next())) return Error(Code::kInternal, "the relay's home was not recorded");
  epoch_ = rows.integer(0);
  return Ok{};
}

Status Homes::fence() {
  std::optional<std::int64_t> epoch = WARREN_TRY(fence_.bind(1, home_.id).find_integer());
  if (epoch == epoch_) return Ok{};
  is_fenced_ = true;
  return Error(Code::kStale, "another relay was started with the identity of this root and replaces this one");
}

Status Homes::before_commit() {
  if (newest_ns_ > written_newest_ns_) WARREN_TRY(put_newest_.bind(1, home_.id).bind(2, newest_ns_).run());
  if (agents_changed_) {
    WARREN_TRY(put_version_.run());
    WARREN_TRY(notify_.bind(1, "relay_agents").run());
  }
  for (const std::string& home : woken_) {
    std::string channel = "relay_" + home;
    WARREN_TRY(notify_.bind(1, channel).run());
  }
  return Ok{};
}

void Homes::after_end() {
  woken_.clear();
  status_updates_.clear();
  agents_changed_ = false;
}

Result<std::int64_t> Homes::newest_ns() {
  std::optional<std::int64_t> found = WARREN_TRY(newest_.bind(1, home_.id).find_integer());
  return found.value_or(0);
}

Result<std::int64_t> Homes::agents_version() {
  std::optional<std::int64_t> found = WARREN_TRY(version_.find_integer());
  return found.value_or(0);
}

Result<std::map<std::string, std::string>> Homes::labels() {
  std::map<std::string, std::string> found;
  Rows rows = labels_.rows();
  while (WARREN_TRY(rows.next())) found.emplace(rows.text(0), rows.text(1));
  return found;
}

Result<std::optional<std::string>> Homes::find(std::string_view agent) {
  Rows rows = find_.bind(1, agent).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(rows.text(0)));
}

Result<bool> Homes::claim(std::string_view agent) {
  std::optional<std::int64_t> claimed = WARREN_TRY(claim_.bind(1, agent).bind(2, home_.id).find_integer());
  note_agents_changed();
  return claimed.has_value();
}

Result<std::int64_t> Homes::adopt(std::string_view agent) {
  std::optional<std::string> before = WARREN_TRY(find(agent));
  WARREN_TRY(move_.bind(1, agent).bind(2, home_.id).run());
  WARREN_TRY(move_deliveries_.bind(1, agent).bind(2, home_.id).run());
  std::optional<std::int64_t> left = WARREN_TRY(under_way_.bind(1, agent).bind(2, home_.id).find_integer());
  if (before) wake(*before);
  wake(home_.id);
  note_agents_changed();
  return left.value_or(0);
}

Status Homes::put_body(std::string_view message_id, std::string_view content) {
  return put_body_.bind(1, message_id).bind(2, as_bytes(content)).run();
}

Result<std::optional<std::string>> Homes::find_body(std::string_view message_id) {
  Rows rows = find_body_.bind(1, message_id).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(rows.bytes(0));
}

Status Homes::drop_body(std::string_view message_id) { return drop_body_.bind(1, message_id).run(); }

Status Homes::lock_message(std::string_view message_id) { return lock_message_.bind(1, message_id).run(); }

Status Homes::own_operation(std::int64_t operation, std::string_view home) {
  return own_operation_.bind(1, operation).bind(2, home).run();
}

}  // namespace warren::relay
