#include "agent/agent_state.h"

namespace warren {

Result<AgentInfo> describe_agent(Agent& agent) { return describe_agent(agent.store()); }

const Schema& schema_of(Agent& agent) { return agent.store().schema(); }

Result<std::int64_t> run_query(Agent& agent, std::string_view sql, QueryAccess access, const QueryReader& reader) {
  return run_query(agent.store(), sql, access, reader);
}

Result<QuotaReport> get_quota(Agent& agent) { return get_quota(agent.store()); }

Status change_quota(Agent& agent, const QuotaChanges& changes) { return change_quota(agent.store(), changes); }

}  // namespace warren
