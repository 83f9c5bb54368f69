// An agent, open and mounted on a directory by this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/running.h"
#include "base/clock.h"
#include "fuse/mounted.h"
#include "fuse/session.h"

namespace warren {

struct ServeOptions {
  std::string agent_path;  // absolute
  std::string dir;         // absolute
  std::string kind;        // for `ps`
  std::string command;     // the same
  MountFor audience = MountFor::kOwner;
  bool read_only = false;
  bool no_exec = false;
  bool auto_unmount = false;
  SessionOptions session;
  std::function<void(const std::string&)> warn;  // of what works, but otherwise than asked; empty: nobody hears it
};

// What to tell of a mount without the passthrough that was asked for.
std::string passthrough_warning(const std::string& problem);

// A user who is not root sees everything as their own, unless told otherwise: nobody else can enter their
// mount, and an agent that came from elsewhere, with other numbers in it, is still theirs to use.
SessionOptions session_options(std::optional<std::uint32_t> uid, std::optional<std::uint32_t> gid);

// Destroying it unmounts and closes the agent, which leaves one file.
class ServedAgent {
 public:
  static Result<std::unique_ptr<ServedAgent>> mount(const ServeOptions& options, Clock& clock);

  Mounted& mounted() { return *mounted_; }

 private:
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<Mounted> mounted_;
  std::unique_ptr<RunningEntry> running_;
};

enum class Foreground { kNo, kYes };

// Mounts and serves until it is unmounted or told to end (SIGTERM, SIGINT, SIGHUP). In the background
// it returns in the process that was started as soon as the mount answers.
Status serve_agent(const ServeOptions& options, Foreground foreground, Clock& clock);

// Mounts the agent on a fresh temporary directory, runs the command there and takes everything away
// again. Returns the command's exit status.
Result<int> run_in_agent(const std::string& agent_path, const std::vector<std::string>& command, Clock& clock);

}  // namespace warren
