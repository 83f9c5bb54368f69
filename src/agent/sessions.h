// Sessions of `warren run`: what an agent changed over a directory of the host, kept for later.
//
// A session is the folder ~/.agentfs/run/<id>, the way AgentFS has it: `delta.db` is the agent file, `base_path`
// says what it lies over, `procs/<pid>.json` who is in it. While it runs there are a socket and a lock beside
// them. Whoever starts or changes a session holds its lock; the process that serves it holds another one on the
// same file, which tells everyone that it runs and goes with the process, however that ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// $HOME, or what the system's list of users says.
Result<std::string> home_directory();
// "~/.agentfs", where no agent may look.
Result<std::string> agents_home();
Result<std::string> path_of_session(std::string_view id);
std::string session_file(const std::string& dir);  // the agent file in it

// The agent file of a session, if there is one with this id.
Result<std::optional<std::string>> find_session_file(std::string_view id);

struct SessionProcess {
  std::int64_t pid = 0;
  bool is_owner = false;  // it started the session; the others joined
  std::string command;
  std::int64_t started_at = 0;  // Unix seconds
  std::string cwd;
};

struct SessionInfo {
  std::string id;
  std::string base;  // empty when the session does not say
  std::int64_t used_at = 0;
  std::uint64_t size_bytes = 0;
  bool is_running = false;
  std::vector<SessionProcess> processes;  // that are alive
};

// By id. Folders without an agent file are left out.
Result<std::vector<SessionInfo>> list_sessions();

// The folder of one session, open.
class SessionDir {
 public:
  // Makes the folder when it is missing; is_new says whether it has an agent file yet. kInvalid (id).
  static Result<SessionDir> open(const std::string& id);
  // kNotFound.
  static Result<SessionDir> open_existing(const std::string& id);

  const std::string& id() const { return id_; }
  const std::string& path() const { return path_; }
  std::string file() const { return session_file(path_); }
  Result<bool> is_new() const;

  // Waits until nobody else is starting, renaming or deleting it; free again when the Fd goes.
  Result<Fd> lock() const;
  // Held by the process that serves the session. Waits a moment for one that is ending. kBusy.
  Result<Fd> lock_serving() const;
  Result<bool> is_running() const;

  Result<std::string> base() const;
  Status set_base(const std::string& base) const;

  Status add_process(const SessionProcess& process) const;
  void remove_process(std::int64_t pid) const;

  // Everything of the session, and nothing else that may be in the folder. kBusy while it runs.
  Status remove() const;

  // The address of the session's socket, of any length of path. It must be bound or connected to while this lives.
  std::string socket_path() const;

 private:
  SessionDir(std::string id, std::string path, Fd dir);

  std::string id_;
  std::string path_;
  Fd dir_;
};

// kNotFound, kExists, kBusy while it runs.
Status rename_session(const std::string& from, const std::string& to);
Status delete_session(const std::string& id);

}  // namespace warren
