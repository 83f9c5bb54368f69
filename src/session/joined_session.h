// A command's side of a session: its connection to the session's server. See docs/design/session.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/sessions.h"
#include "base/result.h"
#include "os/fd.h"
#include "sandbox/walls/run_limits.h"
#include "session/run_network.h"

namespace warren {

// What becomes of a session when a run has ended.
enum class AtEnd {
  kKeepIfChanged,  // delete a new session without changes
  kKeep,
  kDiscard,
};

// What `leave` says about it.
inline constexpr std::string_view kKeepWord = "keep";
inline constexpr std::string_view kDiscardWord = "discard";

// A command's connection to the session's server, with what it needs to enter the sandbox. The session stays open as
// long as the connection. Call leave() at the end: it returns once the server has answered, and for the last command
// that is after everything is stored.
class JoinedSession {
 public:
  // nullopt when no server answers.
  static Result<std::optional<JoinedSession>> join(const SessionDir& session);

  const std::string& base() const { return base_; }
  const std::vector<std::string>& allowed() const { return allowed_; }
  // Everything that can be written to: allowed(), the base, scratch directories and the home, if it has a layer.
  const std::vector<std::string>& writable() const { return writable_; }
  NetworkAccess network() const { return network_; }
  const std::string& namespace_path() const { return namespace_path_; }  // "" if it has none
  const LimitsInForce& limits() const { return limits_; }
  std::vector<Fd> take_namespaces() { return std::move(namespaces_); }

  struct Left {
    bool was_last = false;         // the server has ended, and the agent is a single file
    bool has_changed = true;       // since the server started, the namespace included
    bool has_new_memory = false;   // the namespace has changed
    bool has_refusals = false;     // in the namespace, and recorded
    bool is_wanted = false;        // by a run that has left: it said --keep, or had changes and not --discard
    bool is_kept = false;          // a run that has left said --keep
    std::string warning;           // what did not work as it should while it ran; "" if there is nothing
    std::optional<Error> failure;  // why not everything could be stored; only for the last
  };
  Result<Left> leave(AtEnd at_end);

  // What enters with this mark (sandbox/run_mark.h) belongs to this run: the server ends it if we are killed.
  Status announce(int mark) const;

  // Ends everything that has our mark, and waits for that.
  Status end_processes() const;

  // Does not wait for it. If it cannot be taken, leave() returns that.
  void ask_for_checkpoint();

 private:
  explicit JoinedSession(Fd server) : server_(std::move(server)) {}

  Fd server_;
  std::string base_;
  std::vector<std::string> allowed_;
  std::vector<std::string> writable_;
  std::vector<Fd> namespaces_;
  NetworkAccess network_ = NetworkAccess::kAll;
  std::string namespace_path_;
  LimitsInForce limits_;
};

}  // namespace warren
