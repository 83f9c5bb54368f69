// The process behind a session of `warren run`: it has the agent file open, answers for the files inside the
// sandbox, and lets commands in. It ends when the last of them has left.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/sessions.h"
#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"
#include "sandbox/plan.h"

namespace warren {

struct ServerOptions {
  bool passthrough = false;
  std::function<void(const std::string&)> warn;  // called in the process that goes on, before this one returns
};

// Starts it in the background, and returns when the session can be joined. `held` is the session's lock: the server
// must not keep it. Makes the agent file if the session is new. Call it before any thread is made.
Status start_run_server(const SessionDir& session, const Plan& plan, const ServerOptions& options, Fd& held,
                        Clock& clock);

// What a command needs to come in. While it lives the session does; leave() before the end says whether
// everything is written down.
class JoinedSession {
 public:
  // nullopt when no server answers.
  static Result<std::optional<JoinedSession>> join(const SessionDir& session);

  const std::string& base() const { return base_; }
  const std::vector<std::string>& allowed() const { return allowed_; }
  const std::vector<std::string>& writable() const { return writable_; }  // also base, scratch
  bool has_own_network() const { return has_own_network_; }
  std::vector<Fd> take_namespaces() { return std::move(namespaces_); }

  struct Left {
    bool was_last = false;    // then the server has ended, and the agent is one file
    bool has_changed = true;  // since the server started
  };
  Result<Left> leave();

 private:
  explicit JoinedSession(Fd server) : server_(std::move(server)) {}

  Fd server_;
  std::string base_;
  std::vector<std::string> allowed_;
  std::vector<std::string> writable_;
  std::vector<Fd> namespaces_;
  bool has_own_network_ = false;
};

}  // namespace warren
