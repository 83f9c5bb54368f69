// What doors ask an agent besides its files, keys and calls. They have no access to its store.
#pragma once

#include <cstdint>
#include <string>
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

// Whether the content of this file is encrypted, or will be once there is such a file.
Result<bool> is_secret_file(Agent& agent, const std::string& path);

// Whether another process may have files of the agent open, such as a mount.
bool is_used_elsewhere(Agent& agent);

// Copies everything into the agent file itself, which can then be renamed (Database::empty_log).
Status empty_log_of(Agent& agent);

}  // namespace warren
