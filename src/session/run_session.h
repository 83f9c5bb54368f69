// One run: joins or starts the session, runs the command in it, and keeps or deletes the session at the end.
// See docs/design/session.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent_namespace.h"
#include "agent/keys/file_key.h"
#include "agent/record/anchorer.h"
#include "agent/sessions.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/apply/apply.h"
#include "changes/changes.h"
#include "sandbox/view/plan.h"
#include "sandbox/walls/environment.h"
#include "sandbox/walls/run_limits.h"
#include "session/home_layer.h"
#include "session/joined_session.h"
#include "session/mount_config.h"
#include "session/run_network.h"
#include "session/session_name.h"
#include "session/session_summary.h"

namespace warren {

struct RunOptions {
  std::optional<std::string> session;  // to join, resume or create
  SessionNaming naming = SessionNaming::kWords;
  std::optional<std::string> base;  // as typed; default: the repository around the working directory, or that itself
  std::optional<std::string> repository;  // the base of a new session, if none was asked for
  std::vector<std::string> allow;
  std::vector<std::string> read;
  std::vector<std::string> hide;
  DefaultAllows default_allows = DefaultAllows::kSignIns;
  std::optional<HomeView> home_view;         // default: HomeView::kTools
  std::optional<HomeLayerScope> home_layer;  // default: HomeLayerScope::kShared
  NetworkChoice network;
  RunLimits limits;
  bool has_asked_for_home = false;  // by an option, like the following
  bool has_asked_for_view = false;  // of the home
  bool has_asked_for_default_allows = false;
  bool has_asked_for_limits = false;
  bool has_asked_for_network = false;    // by an option, not only by the user's preferences
  std::vector<AskedVariable> variables;  // of the environment, to pass or set
  EnvironmentBasis environment = EnvironmentBasis::kListed;
  bool passthrough = false;
  std::optional<std::chrono::milliseconds> checkpoint_every;  // for whoever starts the sandbox
  bool checkpoint_tool_calls = false;
  std::optional<Encryption> encryption;     // of a new session; an existing one must be encrypted already
  std::optional<std::string> at;            // an existing session goes back to this checkpoint first
  bool has_namespace = true;                // mounts the session's namespace, for whoever starts the sandbox
  std::optional<RelayMailbox> relay;        // shown at its /ipc; its root must exist
  MountSources mounts;                      // in it; the agent is the session
  bool has_asked_for_namespace = false;     // about these, by an option
  std::optional<AnchorOptions> anchor;      // of the audit trail
  bool has_asked_for_anchor = false;        // by an option
  bool ignores_walls_when_joining = false;  // ignores sandbox options of a joiner, instead of refusing them
  AtEnd at_end = AtEnd::kKeepIfChanged;
  std::vector<std::string> command;
  bool shows_walls_only = false;             // starts the sandbox as for the command, but does not run it
  bool marks_prompt = false;                 // the command is an interactive shell: its prompt names the session
  std::optional<std::string> process_label;  // how the session lists this run; default: the whole command
};

enum class EnteredAs { kCreator, kResumer, kJoiner };

// The session a command is about to run in.
struct RunFacts {
  std::string id;
  std::string base;
  std::vector<std::string> allowed;
  NetworkAccess network = NetworkAccess::kAll;
  std::vector<std::string> upstreams;  // the user's own proxies, for the run that started the sandbox
  LimitsInForce limits;
  std::string namespace_path;          // "" if it is not mounted
  std::optional<RelayMailbox> relay;   // for the run that started the sandbox, like the following
  std::vector<MountSpec> mounts;       // in the namespace
  std::vector<std::string> variables;  // names of the environment, like the following
  std::vector<std::string> held_back;
  EnteredAs entered_as = EnteredAs::kCreator;
  std::vector<std::string> hosts;     // that may be reached by name, as asked for; like the following for the run that
  std::vector<std::string> readable;  // started the sandbox: paths that --read shows
  std::vector<std::string> hidden;    // paths
  std::optional<Plan::Home> home;     // for the run that started the sandbox, if the home has a layer
  std::string home_layer;             // its file
};

struct RunEnd {
  enum class Fate {
    kKept,
    kDeleted,
    kStillInUse,  // was to be discarded, but other runs still use it
    kWanted,      // was to be discarded, but it has work of another run, which did not say so
    kServerLost,  // its server died; the changes it had stored are kept
    kFinished,    // deleted: all that was changed was applied or dropped before the end
  };
  Fate fate = Fate::kKept;
  bool has_changed = true;                        // since the server started, the namespace included
  bool has_new_memory = false;                    // the namespace has changed
  bool has_refusals = false;                      // in the namespace; the session's audit trail has them
  NetworkSummary network;                         // since this run started; empty unless hosts are allowed by name
  std::vector<std::string> ended_restrictions;    // of a finished session, for people
  std::optional<Result<SessionSummary>> summary;  // if it was needed to decide
};

// Receives the events of a run. The caller decides how to show them.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  virtual void on_warning(const std::string& message) = 0;  // something works, but not as requested
  virtual void on_failure(const Error& error) = 0;          // an error that does not change the exit status
  virtual void on_start(const RunFacts& facts) = 0;
  virtual void on_end(const SessionDir& session, const RunEnd& end) = 0;
};

// kUnsupported inside of a run, which cannot start another. Before anything of the user's is read: it may be hidden.
Status check_outside_of_runs();

// Restrictions that an earlier run of the session asked for hold for this one too (session/session_walls.h).
// Returns the exit status: the command's, or one of the statuses in sandbox/enter.h. An error if the session could not
// be started, or if not everything could be stored at its end.
Result<int> run_session(const RunOptions& options, RunObserver& observer, Clock& clock);

// The program to run when no command is given.
std::string shell_of_user();

}  // namespace warren
