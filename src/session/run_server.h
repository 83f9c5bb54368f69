// The server process of a `warren run` session: it holds the agent file open, serves the base inside the sandbox, and
// lets commands join. It ends when the last command has left. See docs/design/session.md.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent_namespace.h"
#include "agent/keys/file_key.h"
#include "agent/record/anchorer.h"
#include "agent/sessions.h"
#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "sandbox/view/plan.h"
#include "sandbox/walls/run_limits.h"
#include "session/run_network.h"

namespace warren {

struct ServerOptions {
  NetworkChoice network;
  RunLimits limits;
  bool passthrough = false;
  std::optional<Encryption> encryption;                       // of a new session
  std::optional<RelayMailbox> relay;                          // shown at /ipc of the namespace
  std::vector<MountSpec> mounts;                              // in the namespace
  std::optional<AnchorOptions> anchor;                        // of the audit trail
  std::string home_layer;                                     // the file of the home's layer, if the plan has one
  std::vector<std::string> names_to_hide;                     // nothing has them now; besides what the plan hides
  std::optional<std::chrono::milliseconds> checkpoint_every;  // if something has changed
  bool checkpoint_tool_calls = false;                         // one whenever a tool call has ended
  std::function<void(const std::string&)> warn;  // called in the server process, before start_run_server returns
};

// Starts the server in the background and returns once the session can be joined. `held` is the session's lock, which
// the server closes. Creates the agent file if the session is new. It forks: call it before starting any thread.
Status start_run_server(const SessionDir& session, const Plan& plan, const ServerOptions& options, Fd& held,
                        Clock& clock);

}  // namespace warren
