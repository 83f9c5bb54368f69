// A tool, called for the user of the command line.
#pragma once

#include <string_view>

#include "cli/context.h"
#include "cli/vfs/view.h"
#include "tools/tool.h"

namespace warren::cli {

// The agent's namespace for a call, with the operator's rights or, with --as-agent, the agent's.
Result<OpenView> open_for_tools(Context& context, const Arguments& args);
std::vector<Option> tool_call_options();  // --json, --as-agent and mounts

struct CallOptions {
  const ToolReach* reach = nullptr;
  LastDocument* last_document = nullptr;
};
// One call, on the record.
ToolAnswer call_here(Context& context, OpenView& view, const Tool& tool, const Json& arguments,
                     const CallOptions& options = {});
// Prints the answer: its text if it has one and --json is not given. An error is printed as JSON, and the command
// fails.
Exit print_answer(Context& context, const Arguments& args, const ToolAnswer& answer);

}  // namespace warren::cli
