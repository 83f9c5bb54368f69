// What is mounted in an agent's namespace: by the command line, by a file that it names, and by the user's own file for
// the agent, $XDG_CONFIG_HOME/warren/mounts/ID.toml. An agent file never says it: a mount may start a program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "vfs/mount_spec.h"

namespace warren {

struct MountSources {
  std::string agent;                   // its id
  std::vector<std::string> arguments;  // of --mount
  std::optional<std::string> file;     // of --mounts
};

// A path that is mounted by several of them: the command line wins over its file, and that one over the user's.
Result<std::vector<MountSpec>> load_mounts(const MountSources& sources);

// Where the user's file for this agent is, whether it exists or not.
Result<std::string> user_mounts_file(const std::string& agent);

}  // namespace warren
