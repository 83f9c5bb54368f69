#include "cli/vfs/view.h"

namespace warren::cli {

Result<OpenView> open_view(Context& context, const Arguments& args) {
  OpenView view;
  Result<std::unique_ptr<Agent>> agent = open_state(context, args, Use::kWrite);
  if (!agent.ok() && (agent.error().code() == Code::kReadOnly || agent.error().code() == Code::kDenied)) {
    agent = open_state(context, args, Use::kRead);
  }
  view.agent = WARREN_TRY(std::move(agent));
  view.names = WARREN_TRY(AgentNamespace::open(*view.agent, WorkingMemory::kRuntimeFolder, context.clock));
  view.fs = (*view.names)
                ->view({.agent = view.names->agent_id(),
                        .space = args.has("as-agent") ? Space::kUser : Space::kKernel,
                        .door = "vfs",
                        .session = {}});
  return view;
}

Option as_agent_option() {
  return {.name = "as-agent", .help = "use the agent's own rights instead of the operator's"};
}

}  // namespace warren::cli
