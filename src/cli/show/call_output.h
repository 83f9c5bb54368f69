// Tool calls as a table and as JSON.
#pragma once

#include <vector>

#include "base/json.h"
#include "cli/show/output.h"
#include "store/tool_calls.h"

namespace warren::cli {

void print_calls(Output& out, const std::vector<ToolCall>& calls);

// What AgentFS prints for a call; absent values are left out.
Json call_json(const ToolCall& call);
// And with what only our own tables know.
Json call_json_full(const ToolCall& call);

}  // namespace warren::cli
