#include "cli/context/tool_call.h"

#include "cli/commands.h"
#include "cli/context/open_index.h"
#include "cli/vfs/embedding.h"

namespace warren::cli {

Result<OpenView> open_for_tools(Context& context, const Arguments& args) { return open_view(context, args, "tool"); }

std::vector<Option> tool_call_options() {
  std::vector<Option> options{json_option(), as_agent_option()};
  for (Option& one : mount_options()) options.push_back(std::move(one));
  return options;
}

ToolAnswer call_here(Context& context, OpenView& view, const Tool& tool, const Json& arguments,
                     const CallOptions& options) {
  ToolIndex index(context, *view.agent);
  ToolEmbedder embedder(context);
  ToolContext call{.agent = *view.agent,
                   .names = *view.names,
                   .view = *view.fs,
                   .clock = context.clock,
                   .session = {},
                   .is_read_only = view.agent->is_read_only(),
                   .open_index = [&] { return index.open(); },
                   .open_embedder = [&] { return embedder.open(); },
                   .reach = options.reach,
                   .last_document = options.last_document};
  return call_tool(call, tool, arguments);
}

Exit print_answer(Context& context, const Arguments& args, const ToolAnswer& answer) {
  if (answer.error) {
    context.out.json(to_json(*answer.error));
    return Exit::kFailed;
  }
  if (answer.text.empty() || args.has("json")) context.out.json(answer.structured);
  else context.out.text(answer.text);
  return Exit::kOk;
}

}  // namespace warren::cli
