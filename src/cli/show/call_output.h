// Tool calls as a table and as JSON.
#pragma once

#include <vector>

#include "base/json.h"
#include "cli/show/output.h"
#include "store/record/tool_calls.h"

namespace warren::cli {

// AgentFS knows whole seconds only, and prints them as milliseconds.
enum class Durations { kTrue, kAsAgentFs };
void print_calls(Output& out, const std::vector<ToolCall>& calls, Durations durations);

// The JSON that AgentFS prints for a call; absent values are left out.
Json call_json(const ToolCall& call);
// call_json plus the details that only our own tables have.
Json call_json_full(const ToolCall& call);

}  // namespace warren::cli
