// The rows of the journal as events with paths, for agent/record/agent_log.h.
#pragma once

#include <vector>

#include "agent/record/agent_log.h"

namespace warren {

// Adds the events, oldest first. Of a row that also added to the audit trail no event is taken: that says more. A node
// is named by the path that it had then, as far as its renames and its removal are known. With a path in the filter,
// the events of a renamed file under its former names are added, too.
Status add_journal(Agent& agent, const LogFilter& filter, std::vector<LogEvent>& events);

}  // namespace warren
