// Turns a spawn request into a process to start, within the limits of the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "relay/protocol/spawn_request.h"
#include "relay/root/root.h"
#include "relay/spawn/child.h"
#include "relay/spawn/spawn_config.h"

namespace warren::relay {

// The relay's own program and environment.
struct LauncherOptions {
  std::string program;                   // our own path, for `warren run`
  std::vector<std::string> environment;  // NAME=value
};

struct Prepared {
  ChildSpec spec;
  std::string dir;  // the path of its working directory
};

// For one thread. Root and configuration must outlive it.
class Launcher {
 public:
  Launcher(const Root& root, const SpawnConfig& config, LauncherOptions options)
      : root_(root), config_(config), options_(std::move(options)) {}

  // Whether the request is allowed now. kDenied belongs in the audit log; kUnsupported: spawning is not configured.
  Status check(const SpawnRequest& request) const;

  // Creates the agent's directories if they need more than registering it does: another user, or attachments in them.
  Status make_home(Root& root, const SpawnRequest& request) const;

  // Opens the files that the process needs. The agent's directories must exist. `state_version` is the version of the
  // state saved in an earlier life; 0: none.
  Result<Prepared> prepare(const SpawnRequest& request, std::string_view token, std::int64_t state_version) const;

 private:
  Result<const CliTemplate*> find_template(const SpawnRequest& request) const;
  Status check_env(const SpawnRequest& request) const;
  Result<Fd> open_dir(const SpawnRequest& request) const;
  Result<Fd> open_log(std::string_view agent) const;
  Result<std::vector<std::string>> make_argv(const CliTemplate& cli, const SpawnRequest& request,
                                             const std::string& dir) const;
  std::vector<std::string> make_env(const SpawnRequest& request, std::string_view token, const Prepared& prepared,
                                    std::int64_t state_version) const;
  std::string own(std::string_view variable) const;

  const Root& root_;
  const SpawnConfig& config_;
  LauncherOptions options_;
};

}  // namespace warren::relay
