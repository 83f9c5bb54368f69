// What is mounted in an agent's namespace: by the command line, by a file that it names, by the user's own file for the
// agent, $XDG_CONFIG_HOME/warren/mounts/ID.toml, and for runs by run.toml. An agent file never says it: a mount may
// start a program.
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
  std::vector<std::string> preferred;  // as --mount, of run.toml
  std::optional<std::string> preferred_file;
};

// A path that is mounted by several of them: the command line wins over its file, then the user's file for the agent,
// then run.toml.
Result<std::vector<MountSpec>> load_mounts(const MountSources& sources);

// Where the user's file for this agent is, whether it exists or not.
Result<std::string> user_mounts_file(const std::string& agent);

}  // namespace warren
