// The namespace of the agent that a command names, as its caller sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/agent_namespace.h"
#include "agent/record/anchorer.h"
#include "cli/context.h"
#include "cli/syntax/args.h"
#include "vfs/namespace.h"

namespace warren::cli {

struct OpenView {
  std::unique_ptr<Agent> agent;
  std::unique_ptr<AgentNamespace> names;
  std::unique_ptr<NamespaceView> fs;

  // The path of the command, in this namespace. That one in another is refused is recorded, as the operation `op`.
  Result<std::string> path(const Arguments& args, std::string_view op) const {
    return fs->resolve(**names, args.get("PATH"), op);
  }
};

// Kernel space, or user space with --as-agent. An agent that cannot be written is shown as it is.
// `door` is what the trail calls the way in.
Result<OpenView> open_view(Context& context, const Arguments& args, std::string_view door = "vfs");

Option as_agent_option();

// --mount and --mounts, and what they and the user's configuration say for an agent.
std::vector<Option> mount_options();
Result<std::vector<MountSpec>> mounts_of(const Arguments& args, const std::string& agent_path);

// Where and how often the hosting process anchors the audit trail: --anchor and --anchor-every.
std::vector<Option> anchor_options();
Result<std::optional<AnchorOptions>> asked_anchor(const std::optional<std::string>& address,
                                                  const std::optional<std::string>& every);

}  // namespace warren::cli
