// Sessions of `warren run`: the stored changes of commands to a host directory.
//
// A session is the folder ~/.agentfs/run/<id>, laid out as in AgentFS: `delta.db` is the agent file, `base_path` holds
// the base's path, and `procs/<pid>.json` describes each command in it. A running session also has a socket, and the
// file `lock` carries two locks. A process that starts or changes a session holds the first. The session's server holds
// the second: it marks the session as running, and the kernel releases it however the server ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// $HOME, or the home directory from the user database.
Result<std::string> home_directory();
// A file of the user's settings: ~/.config/warren/NAME, or below XDG_CONFIG_HOME.
Result<std::string> config_file(std::string_view name);
// "~/.agentfs", which is hidden from every agent.
Result<std::string> agents_home();
Result<std::string> path_of_session(std::string_view id);
std::string session_file(const std::string& dir);  // the agent file in the session's folder

// The agent file of the session with this id; nullopt if there is no such session.
Result<std::optional<std::string>> find_session_file(std::string_view id);

struct SessionProcess {
  std::int64_t pid = 0;
  bool is_owner = false;  // it started the session's server; the others joined
  std::string command;
  std::int64_t started_at = 0;  // Unix seconds
  std::string cwd;
};

struct SessionInfo {
  std::string id;
  std::string base;             // empty if unknown
  std::int64_t used_at = 0;     // Unix seconds
  std::int64_t used_at_ns = 0;  // the same in nanoseconds
  std::uint64_t size_bytes = 0;
  bool is_running = false;
  std::vector<SessionProcess> processes;  // live ones only
};

// For sorting, the newest first.
inline bool was_used_later(const SessionInfo& a, const SessionInfo& b) { return a.used_at_ns > b.used_at_ns; }

// Sorted by id. Folders without an agent file are skipped.
Result<std::vector<SessionInfo>> list_sessions();
Result<std::vector<std::string>> list_session_ids();  // the same, without looking into them

// The open folder of one session.
class SessionDir {
 public:
  // Creates the folder if it is missing; is_new() tells whether it has an agent file yet. kInvalid for a bad id.
  static Result<SessionDir> open(const std::string& id);
  // kNotFound if the folder does not exist.
  static Result<SessionDir> open_existing(const std::string& id);

  const std::string& id() const { return id_; }
  const std::string& path() const { return path_; }
  std::string file() const { return session_file(path_); }
  Result<bool> is_new() const;

  // Waits while another process starts, renames or deletes the session. Closing the Fd unlocks it. kStale if the
  // session was renamed or deleted meanwhile.
  Result<Fd> lock() const;
  // The lock of the session's server. Waits up to ten seconds for a server that is ending, then fails with kBusy.
  Result<Fd> lock_serving() const;
  Result<bool> is_running() const;

  Result<std::string> base() const;
  Status set_base(const std::string& base) const;

  // Has the session stay at the end of the run that began it, even if nothing is left in it then.
  Status keep() const;
  Result<bool> is_kept() const;

  Status add_process(const SessionProcess& process) const;
  void remove_process(std::int64_t pid) const;

  // Removes the session's own files, but no others that may be in the folder. kBusy while it runs.
  Status remove() const;

  // The address of the session's socket. Goes through our open directory, so a long path does not matter; valid while
  // this object lives.
  std::string socket_path() const;

 private:
  SessionDir(std::string id, std::string path, Fd dir);

  std::string id_;
  std::string path_;
  Fd dir_;
};

// Both fail with kNotFound, or kBusy while the session runs; rename also with kExists.
Status rename_session(const std::string& from, const std::string& to);
Status delete_session(const std::string& id);
// As delete_session. False if the session stays, because it has the mark of SessionDir::keep.
Result<bool> delete_session_unless_kept(const std::string& id);
// A folder without an agent file, which a merge or run that was killed has left. kNotFound if there is none.
Status delete_unfinished_session(const std::string& id);

}  // namespace warren
