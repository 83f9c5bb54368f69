// The AgentFS commands that mount an agent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/context.h"
#include "cli/syntax/args.h"

namespace warren::cli {

std::vector<Command> make_agentfs_mounts();

inline constexpr std::string_view kIdRule = "must contain only alphanumeric characters, hyphens, and underscores";

// locate_agent, with AgentFS's error messages.
Result<std::string> locate_for_agentfs(const std::string& id_or_path);

Status refuse_nfs(std::string_view backend);  // only "fuse" is supported

Result<Exit> run_in_agentfs(Context& context, const std::string& path, const std::vector<std::string>& command,
                            std::string_view backend);

}  // namespace warren::cli
