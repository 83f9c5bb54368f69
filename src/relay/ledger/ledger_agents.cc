// Agents that the relay starts: their lives, and the states they saved.
#include <array>

#include <fmt/format.h>

#include "base/path.h"
#include "crypto/digest.h"
#include "relay/ledger/ledger.h"

namespace warren::relay {
namespace {

constexpr std::array<std::string_view, 6> kLifeStates = {"asked",  "running",  "releasing",
                                                         "exited", "released", "failed"};

// A state may be any bytes. It is stored as hexadecimal text, which both engines accept.
constexpr Sql kAgentTables = R"(
CREATE TABLE IF NOT EXISTS lives (
    name TEXT NOT NULL,
    number BIGINT NOT NULL,
    message_id TEXT NOT NULL UNIQUE,
    spawner TEXT NOT NULL,
    depth BIGINT NOT NULL,
    cli TEXT NOT NULL,
    working_dir TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid_namespace BIGINT NOT NULL,
    pid BIGINT NOT NULL,
    started BIGINT NOT NULL,
    token_sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    releaser TEXT NOT NULL,
    outcome TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    home TEXT NOT NULL,
    PRIMARY KEY (name, number)
);
CREATE TABLE IF NOT EXISTS continuity (
    agent TEXT NOT NULL,
    version BIGINT NOT NULL,
    saved_at BIGINT NOT NULL,
    content_hex TEXT NOT NULL,
    PRIMARY KEY (agent, version)
);
)";

#define WARREN_LIFE                                                                                            \
  "l.name, l.number, l.message_id, l.spawner, l.depth, l.cli, l.working_dir, l.boot, l.pid_namespace, l.pid, " \
  "l.started, l.token_sha256, l.state, l.releaser, l.outcome, l.asked_at, l.started_at, l.ended_at"

Result<LifeState> parse_life_state(std::string_view word) {
  for (std::size_t i = 0; i < kLifeStates.size(); ++i) {
    if (kLifeStates[i] == word) return static_cast<LifeState>(i);
  }
  return Error(Code::kCorrupt, fmt::format("ledger: unknown life state {}", quote(word)));
}

Result<Life> life_of(Rows& rows) {
  Life life;
  life.name = rows.text(0);
  life.number = rows.integer(1);
  life.message_id = rows.text(2);
  life.spawner = rows.text(3);
  life.depth = rows.integer(4);
  life.cli = rows.text(5);
  life.dir = rows.text(6);
  life.process = {std::string(rows.text(7)), rows.integer(8), rows.integer(9), rows.integer(10)};
  life.token_sha256 = rows.text(11);
  life.state = WARREN_TRY(parse_life_state(rows.text(12)));
  life.releaser = rows.text(13);
  life.outcome = rows.text(14);
  life.asked_at_us = rows.integer(15);
  life.started_at_us = rows.integer(16);
  life.ended_at_us = rows.integer(17);
  return life;
}

int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

Result<std::string> bytes_of_hex(std::string_view hex) {
  std::string out;
  out.reserve(hex.size() / 2);
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    int high = digit_of(hex[at]);
    int low = digit_of(hex[at + 1]);
    if (high < 0 || low < 0) return Error(Code::kCorrupt, "ledger: a saved state is not valid hexadecimal");
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

}  // namespace

std::string_view name_of(LifeState state) { return kLifeStates.at(static_cast<std::size_t>(state)); }

Status Ledger::create_agent_tables() { return db_->execute(kAgentTables); }

Status Ledger::prepare_agents() {
  const Prepared statements[] = {
      {&set_pid_, "UPDATE agents SET pid = ?2 WHERE name = ?1"},
      {&list_lives_,
       "SELECT " WARREN_LIFE " FROM lives l WHERE l.home = ?1 AND (l.state = 'asked' OR l.number = (SELECT "
       "max(n.number) FROM lives n WHERE n.name"
       " = l.name AND n.home = l.home AND n.state NOT IN ('asked', 'failed'))) ORDER BY l.name, l.number"},
      {&next_life_, "SELECT coalesce(max(number), 0) + 1 FROM lives WHERE name = ?1"},
      {&home_of_life_, "SELECT home FROM lives WHERE name = ?1 AND state <> 'failed' ORDER BY number DESC LIMIT 1"},
      {&find_life_, "SELECT " WARREN_LIFE " FROM lives l WHERE l.message_id = ?1"},
      {&put_life_,
       "INSERT INTO lives(name, number, message_id, spawner, depth, cli, working_dir, boot, pid_namespace, pid, "
       "started,"
       " token_sha256, state, releaser, outcome, asked_at, started_at, ended_at, home) VALUES (?1, ?2, ?3, ?4, ?5, ?6, "
       "?7, "
       "?8,"
       " ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19) ON CONFLICT (name, number) DO UPDATE SET working_dir ="
       " excluded.working_dir, boot = excluded.boot, pid_namespace = excluded.pid_namespace, pid = excluded.pid, "
       "started"
       " = excluded.started, token_sha256 = excluded.token_sha256, state = excluded.state, releaser ="
       " excluded.releaser, outcome = excluded.outcome, started_at = excluded.started_at, ended_at = "
       "excluded.ended_at"},
      {&find_state_, "SELECT version, saved_at, content_hex FROM continuity WHERE agent = ?1 AND version = ?2"},
      {&newest_state_,
       "SELECT version, saved_at, content_hex FROM continuity WHERE agent = ?1 ORDER BY version DESC LIMIT 1"},
      {&newest_version_, "SELECT coalesce(max(version), 0) FROM continuity WHERE agent = ?1"},
      {&save_state_, "INSERT INTO continuity(agent, version, saved_at, content_hex) VALUES (?1, ?2, ?3, ?4)"},
      {&drop_states_, "DELETE FROM continuity WHERE agent = ?1 AND version <= ?2"},
  };
  return prepare_all(statements);
}

Status Ledger::set_agent_pid(std::string_view name, std::int64_t pid) {
  std::optional<std::int64_t> known = pid == 0 ? std::nullopt : std::optional(pid);
  return set_pid_.bind(1, name).bind(2, known).run();
}

Result<std::vector<Life>> Ledger::list_lives() {
  std::vector<Life> found;
  Rows rows = list_lives_.bind(1, home()).rows();
  while (WARREN_TRY(rows.next())) {
    Life life = WARREN_TRY(life_of(rows));
    found.push_back(std::move(life));
  }
  return found;
}

Result<std::optional<Life>> Ledger::find_life(std::string_view message_id) {
  Rows rows = find_life_.bind(1, message_id).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<Life>();
  Life life = WARREN_TRY(life_of(rows));
  return std::optional(std::move(life));
}

Result<std::int64_t> Ledger::next_life(std::string_view name) {
  std::optional<std::int64_t> number = WARREN_TRY(next_life_.bind(1, name).find_integer());
  return number.value_or(1);
}

Result<std::optional<std::string>> Ledger::find_home_of_life(std::string_view name) {
  Rows rows = home_of_life_.bind(1, name).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(rows.text(0)));
}

Status Ledger::put_life(const Life& l) {
  return put_life_.bind(1, l.name)
      .bind(2, l.number)
      .bind(3, l.message_id)
      .bind(4, l.spawner)
      .bind(5, l.depth)
      .bind(6, l.cli)
      .bind(7, l.dir)
      .bind(8, l.process.boot)
      .bind(9, l.process.pid_namespace)
      .bind(10, l.process.pid)
      .bind(11, l.process.started)
      .bind(12, l.token_sha256)
      .bind(13, name_of(l.state))
      .bind(14, l.releaser)
      .bind(15, l.outcome)
      .bind(16, l.asked_at_us)
      .bind(17, l.started_at_us)
      .bind(18, l.ended_at_us)
      .bind(19, home())
      .run();
}

Result<std::optional<SavedState>> Ledger::find_state(std::string_view agent, std::optional<std::int64_t> version) {
  Statement& statement = version ? find_state_.bind(1, agent).bind(2, *version) : newest_state_.bind(1, agent);
  Rows rows = statement.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<SavedState>();
  SavedState state{std::string(agent), rows.integer(0), rows.integer(1), ""};
  state.content = WARREN_TRY(bytes_of_hex(rows.text(2)));
  return std::optional(std::move(state));
}

Result<std::int64_t> Ledger::newest_version(std::string_view agent) {
  std::optional<std::int64_t> version = WARREN_TRY(newest_version_.bind(1, agent).find_integer());
  return version.value_or(0);
}

Status Ledger::save_state(const SavedState& state, std::int64_t versions_kept) {
  std::string hex = hex_of(as_bytes(state.content));
  WARREN_TRY(save_state_.bind(1, state.agent).bind(2, state.version).bind(3, state.saved_at_us).bind(4, hex).run());
  return drop_states_.bind(1, state.agent).bind(2, state.version - versions_kept).run();
}

}  // namespace warren::relay
