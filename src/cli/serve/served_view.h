// The namespace that `warren serve` serves, as its caller may use it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/syntax/args.h"
#include "cli/vfs/view.h"
#include "tools/tool.h"

namespace warren::cli {

struct ServedView {
  OpenView open;
  ToolReach reach;
  // mcp::ServiceOptions::renew_view; only with --as.
  std::function<Result<std::unique_ptr<NamespaceView>>()> renew_view = {};
};

// --as, --as-operator, --root, --read-only, --allow and the relay's options, with the namespace's mounts.
// Which of them cannot be used together, before anything is opened.
Status check_served_options(const Arguments& args);
Result<ServedView> open_served_view(Context& context, const Arguments& args);
std::vector<Option> served_view_options();

// --relay-as and --relay: the mailbox, if one is named.
std::vector<Option> relay_place_options();
Result<std::optional<RelayPlace>> find_relay_place(Context& context, const Arguments& args);

// tool_reach.cc: what --allow lets tools do, for an agent that is a session of `warren run`. kInvalid if it is not one.
Status allow_tools(const std::vector<std::string>& words, const Agent& agent, ToolReach& reach);

}  // namespace warren::cli
