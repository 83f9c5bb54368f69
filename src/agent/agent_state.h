// What doors ask an agent besides its files, keys and calls. They have no access to its store.
#pragma once

#include <cstdint>
#include <string_view>

#include "agent/agent.h"
#include "agent/quota.h"
#include "base/result.h"
#include "store/info.h"
#include "store/query.h"

namespace warren {

Result<AgentInfo> describe_agent(Agent& agent);
const Schema& schema_of(Agent& agent);
Result<std::int64_t> run_query(Agent& agent, std::string_view sql, QueryAccess access, const QueryReader& reader);

Result<QuotaReport> get_quota(Agent& agent);
Status change_quota(Agent& agent, const QuotaChanges& changes);

// Copies everything into the agent file itself, which can then be renamed (Database::empty_log).
Status empty_log_of(Agent& agent);

}  // namespace warren
