// Turns a request to spawn into a process to start, by what the operator allows.
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

// What the relay itself was given by whoever runs it.
struct LauncherOptions {
  std::string program;                   // ours, for `warren run`
  std::vector<std::string> environment;  // NAME=value
};

struct Prepared {
  ChildSpec spec;
  std::string dir;  // where it works, as a path
};

// One thread. Root and configuration must outlive it.
class Launcher {
 public:
  Launcher(const Root& root, const SpawnConfig& config, LauncherOptions options)
      : root_(root), config_(config), options_(std::move(options)) {}

  // Whether it would be allowed now. kDenied is worth an entry in the audit log; kUnsupported: nothing may be spawned.
  Status check(const SpawnRequest& request) const;

  // Opens what the process needs. The agent's directories must be there. `state_version`: of what it saved in an
  // earlier life; 0 for none.
  Result<Prepared> prepare(const SpawnRequest& request, std::string_view token, std::int64_t state_version) const;

 private:
  Result<const CliTemplate*> find_template(const SpawnRequest& request) const;
  Status check_env(const SpawnRequest& request) const;
  Result<Fd> open_dir(const SpawnRequest& request) const;
  Result<Fd> open_log(std::string_view agent) const;
  Result<std::vector<std::string>> make_argv(const CliTemplate& cli, const SpawnRequest& request,
                                             const std::string& dir) const;
  std::vector<std::string> make_env(const SpawnRequest& request, std::string_view token, const std::string& dir,
                                    std::int64_t state_version) const;
  std::string own(std::string_view variable) const;

  const Root& root_;
  const SpawnConfig& config_;
  LauncherOptions options_;
};

}  // namespace warren::relay
