// An agent, open and mounted on a directory by this process.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "agent/record/anchorer.h"
#include "agent/running.h"
#include "base/clock.h"
#include "fuse/mounted.h"
#include "fuse/session.h"
#include "vfs/namespace.h"

namespace warren {

struct ServeOptions {
  std::string agent_path;  // absolute
  std::string dir;         // absolute
  std::string kind;        // shown by `ps`
  std::string command;     // shown by `ps`
  MountFor audience = MountFor::kOwner;
  bool read_only = false;
  bool no_exec = false;
  bool sync = false;  // every change is durable when its call returns
  bool auto_unmount = false;
  bool namespaces = false;              // the agent's namespace as the agent may use it, instead of its own tree
  std::vector<MountSpec> mounts;        // of the namespace
  std::optional<AnchorOptions> anchor;  // of the audit trail
  SessionOptions session;
  std::function<void(const std::string&)> warn;  // something works, but not as requested; may be empty
};

// The warning for a mount that cannot use the requested passthrough.
std::string passthrough_warning(const std::string& problem);

// After an agent was closed: a warning if its log is still beside it though no mount uses it, as on a full disk.
// nullopt if it is a single file.
std::optional<std::string> find_log_warning(const std::string& agent_path);

// What closing an agent returned, and the losses of its mount (Mounted::lost), in one.
Status with_losses(Status closed, const std::vector<std::string>& lost);

// A user who is not root sees everything as their own unless uid or gid are given: nobody else can enter their mount,
// and an agent from another machine, with other ids in it, is still usable.
SessionOptions session_options(std::optional<std::uint32_t> uid, std::optional<std::uint32_t> gid);

// The destructor unmounts and closes the agent, which leaves a single file.
class ServedAgent {
 public:
  static Result<std::unique_ptr<ServedAgent>> mount(const ServeOptions& options, Clock& clock);

  // Unmounts and stores the rest, as the destructor does, and returns the error of Agent::close. It is also left for
  // `warren umount` and `warren ps`.
  Status close();

  Mounted& mounted() { return *mounted_; }
  Agent& agent() { return *agent_; }
  MountedState* mounted_state() { return namespace_ ? &namespace_->mounted() : nullptr; }  // null without a namespace

 private:
  void show_lost(const std::vector<std::string>& lost);

  std::mutex running_mutex_;               // threads of the mount report losses
  std::unique_ptr<RunningEntry> running_;  // under running_mutex_, while there is a mount
  std::string lost_;                       // under running_mutex_
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<AgentNamespace> namespace_;
  std::unique_ptr<NamespaceView> view_;
  std::unique_ptr<Anchorer> anchorer_;
  std::unique_ptr<Mounted> mounted_;
};

enum class Foreground { kNo, kYes };

// Mounts and serves until it is unmounted or gets SIGTERM, SIGINT or SIGHUP. With Foreground::kNo a background process
// does that, and the call returns in the calling process once the mount is ready.
Status serve_agent(const ServeOptions& options, Foreground foreground, Clock& clock);

// Mounts the agent on a new temporary directory, runs the command there, then unmounts and removes the directory.
// Returns the command's exit status.
Result<int> run_in_agent(const std::string& agent_path, const std::vector<std::string>& command, Clock& clock);

}  // namespace warren
