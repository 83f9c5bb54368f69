#include "agent/agent_state.h"

#include "agent/record/audit_trail.h"
#include "fs/encrypted.h"
#include "fs/path_ops.h"
#include "store/ciphers/content_keys.h"

namespace warren {
namespace {

constexpr std::size_t kRecordedSqlBytes = 1024;

// The statement is the event's path, because nothing else says what was done.
AuditEvent event_of_sql(Agent& agent, std::string_view sql) {
  std::string text(sql.substr(0, kRecordedSqlBytes));
  if (sql.size() > kRecordedSqlBytes) text += "...";
  return operators_events(agent, "sql", {text}).front();
}

}  // namespace

Result<AgentInfo> describe_agent(Agent& agent) { return describe_agent(agent.store()); }

const Schema& schema_of(Agent& agent) { return agent.store().schema(); }

Result<std::int64_t> run_query(Agent& agent, std::string_view sql, QueryAccess access, const QueryReader& reader) {
  auto run = [&] { return run_query(agent.store(), sql, access, reader); };
  if (access == QueryAccess::kRead) {
    WARREN_TRY(record_reading(agent, "sql", {event_of_sql(agent, sql).path}));
    return run();
  }
  // A table that is not Warren's can only be removed here.
  Result<AuditLog*> log = agent.operators_audit();
  if (!log.ok() && log.error().code() == Code::kCorrupt) return run();
  return do_on_record(agent, event_of_sql(agent, sql), run);
}

Result<QuotaReport> get_quota(Agent& agent) { return get_quota(agent.store()); }

Status change_quota(Agent& agent, const QuotaChanges& changes) {
  AuditEvent event = operators_events(agent, "quota", {"/"}).front();
  if (changes.bytes) event.size_bytes = *changes.bytes;
  return do_on_record(agent, std::move(event), [&] { return change_quota(agent.store(), changes); });
}

bool is_used_elsewhere(Agent& agent) { return agent.store().database().find_seat_after(0) != 0; }

Status empty_log_of(Agent& agent) { return agent.store().database().empty_log(); }

Result<bool> is_secret_file(Agent& agent, const std::string& path) {
  if (agent.store().database().key()) return true;
  if (WARREN_TRY(exists(agent.fs(), path))) {
    Attributes node = WARREN_TRY(stat(agent.fs(), path));
    return is_encrypted(agent.fs(), node.inode);
  }
  ContentKeys* keys = agent.store().content_keys();
  return keys != nullptr && keys->find_for(path).has_value();
}

}  // namespace warren
