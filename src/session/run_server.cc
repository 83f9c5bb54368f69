#include "session/run_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/ascii.h"
#include "base/path.h"
#include "changes/pinned/frozen_tree.h"
#include "changes/pinned/merged_work.h"
#include "changes/pinned/pinned_git.h"
#include "changes/upper/upper_edit.h"
#include "fuse/mounted.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/processes/daemon.h"
#include "sandbox/message.h"
#include "sandbox/sandbox.h"
#include "session/hidden_from_base.h"
#include "session/home_layer.h"
#include "session/joined_session.h"
#include "session/project_watch.h"
#include "session/run_checkpoints.h"
#include "session/served_agent.h"
#include "session/session_file.h"
#include "session/session_socket.h"

namespace warren {
namespace {

constexpr int kSignInMs = 1000;       // how long a changed sign-in may wait to be written outside
constexpr int kFirstJoinMs = 30'000;  // the process that started the server joins at once, unless it was killed

// Closing the last descriptor of an inotify instance blocks for 8 to 20 ms, until no other CPU can be using it. With a
// duplicate of each descriptor, that happens when this process exits, and nobody waits for it.
void leave_watches_to_exit() {
  Result<Fd> dir = open_host_dir("/proc/self/fd");
  if (!dir.ok()) return;
  Result<std::vector<HostEntry>> entries = list_host_dir(dir->get());
  if (!entries.ok()) return;
  for (const HostEntry& entry : *entries) {
    Result<std::string> leads_to = read_host_link_below(dir->get(), entry.name);
    bool is_watch = leads_to.ok() && *leads_to == "anon_inode:inotify";
    std::optional<int> fd = parse_number<int>(entry.name);
    if (is_watch && fd) ::fcntl(*fd, F_DUPFD_CLOEXEC, 0);
  }
}

// So that a run cannot take the machine down with it, and no honest build is stopped.
std::uint64_t default_memory() {
  long pages = ::sysconf(_SC_PHYS_PAGES);
  long size = ::sysconf(_SC_PAGESIZE);
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size) / 10 * 9;
}

class RunServer {
 public:
  RunServer(const SessionDir& session, const Plan& plan, const ServerOptions& options, Clock& clock)
      : session_(session), plan_(plan), options_(options), clock_(clock) {}

  // Starts the sandbox first, because it forks and everything after it starts threads. The agent is opened while the
  // sandbox sets itself up.
  Status start() {
    serving_ = WARREN_TRY(session_.lock_serving());
    WARREN_TRY(take_signals());
    if (options_.network.access == NetworkAccess::kByName) {
      proxy_ = WARREN_TRY(ProxyProcess::start(options_.network, network_record(session_.path())));
    }
    sandbox_ = WARREN_TRY(Sandbox::start(plan_, session_.file()));
    set_limits();
    if (WARREN_TRY(session_.is_new())) {
      WARREN_TRY(session_.set_base(plan_.base));
      WARREN_TRY(make_session_file(session_, plan_, options_.encryption, clock_));
    }
    AgentOptions how{.id_or_path = session_.file(), .durability = Durability::kProcess, .commits = Commits::kGrouped};
    how.hidden = WARREN_TRY(hidden_from_base(plan_));
    how.hidden.insert(how.hidden.end(), options_.names_to_hide.begin(), options_.names_to_hide.end());
    how.caller = {.agent = {}, .space = Space::kUser, .door = "run", .session = session_.id()};
    how.audit_reads = AuditReads::kByOpening;
    if (plan_.home) home_ = WARREN_TRY(HomeLayer::open(options_.home_layer, plan_, how.hidden, clock_));
    WARREN_TRY(add_hidden_paths(session_.file(), plan_.base, how.hidden));
    project_ = ProjectWatch::start(plan_.base);
    ToServe opened = WARREN_TRY(open_to_serve(how, clock_));
    agent_ = std::move(opened.agent);
    if (!opened.warning.empty()) options_.warn(opened.warning);
    show_base_head(*agent_).ignore("git works without it, and the agent may have damaged its repository");
    hidden_ = how.hidden;
    if (plan_.namespace_path) WARREN_TRY(open_namespace());
    if (agent_->unrecorded()) options_.warn(*agent_->unrecorded());
    anchorer_ = WARREN_TRY(Anchorer::start(*agent_, options_.anchor, clock_));
    if (options_.limits.disk_bytes) WARREN_TRY(agent_->limit_space(*options_.limits.disk_bytes));
    first_change_ = WARREN_TRY(agent_->change_mark());
    MountedState* mounted_state = namespace_ ? &namespace_->mounted() : nullptr;
    checkpoints_ = WARREN_TRY(RunCheckpoints::start(
        *agent_, mounted_state,
        {.every = options_.checkpoint_every, .after_tool_calls = options_.checkpoint_tool_calls}));
    Sandbox::Requests requests = WARREN_TRY(sandbox_->take_requests());
    limits_.counts_in_namespace = sandbox_->limits_processes();
    if (proxy_) WARREN_TRY(proxy_->serve(sandbox_->take_proxy_socket()));
    SessionOptions shown = session_options({}, {});
    shown.passthrough = options_.passthrough;
    if (home_) {
      shown.has_mounts = has_places_inside(plan_, plan_.home->path);
      mounted_home_ = WARREN_TRY(Mounted::adopt(home_->fs(), std::move(requests.home), plan_.home->path, shown));
    }
    shown.has_mounts = has_places_inside(plan_, plan_.base);
    shown.opens = agent_->records_reads();
    mounted_ = WARREN_TRY(Mounted::adopt(agent_->fs(), std::move(requests.base), plan_.base, shown));
    if (view_) {
      shown.has_mounts = false;
      shown.passthrough = false;
      shown.opens = view_->is_recorded();
      shown.flushes = !options_.mounts.empty();
      mounted_names_ = WARREN_TRY(Mounted::adopt(*view_, std::move(requests.names), *plan_.namespace_path, shown));
    }
    std::string problem = mounted_->passthrough_problem();
    if (!problem.empty()) options_.warn(passthrough_warning(problem));
    WARREN_TRY(sandbox_->open());
    listener_ = WARREN_TRY(listen_for_commands(session_));
    return Ok{};
  }

  void give_up() { serving_ = Fd(); }

  // Returns when the last command has left, the sandbox or the mount has ended, or a signal asks us to end.
  void serve() {
    bool has_had_commands = false;
    auto first_join = std::chrono::steady_clock::now() + std::chrono::milliseconds(kFirstJoinMs);
    while (!should_end_) {
      if (!has_had_commands && std::chrono::steady_clock::now() >= first_join) break;
      std::vector<pollfd> all{{listener_.get(), POLLIN, 0},
                              {signals_.get(), POLLIN, 0},
                              {sandbox_->ended_fd(), POLLIN, 0},
                              {mounted_->ended_fd(), POLLIN, 0},
                              {project_ ? project_->fd() : -1, POLLIN, 0}};
      constexpr std::size_t kFirstCommand = 5;
      for (const Client& command : commands_) all.push_back({command.socket.get(), POLLIN, 0});
      int patience = !has_had_commands ? kFirstJoinMs : home_ ? kSignInMs : -1;
      if (has_had_commands) patience = checkpoints_->patience_ms(patience);
      if (has_had_commands && project_) patience = project_->patience_ms(patience);
      int ready = ::poll(all.data(), all.size(), patience);
      if (ready < 0 && errno == EINTR) continue;
      if (project_ && project_->has_moved()) follow_project().ok() ? project_->set_followed() : project_->put_off();
      if (has_had_commands) {
        if (home_) home_->write_sign_ins(HomeLayer::WhenToWrite::kAtRest);
        checkpoints_->take_due();
        if (ready == 0) continue;
      }
      bool is_over = ready <= 0 || all[2].revents != 0 || all[3].revents != 0;
      if (is_over) break;
      if (all[1].revents != 0 && !continues_after_signal()) break;
      for (std::size_t i = commands_.size(); i-- > 0;) {
        if (all[kFirstCommand + i].revents != 0) handle_message(i);
      }
      if (all[0].revents != 0) accept();
      has_had_commands = has_had_commands || !commands_.empty();
      if (has_had_commands && commands_.empty()) break;
    }
    end();
  }

 private:
  struct Client {
    Fd socket;
    Fd mark;  // of what it has started
  };

  Status take_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_SETMASK, &set, nullptr);
    signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
    if (!signals_.is_open()) return system_error(errno, "signalfd");
    return Ok{};
  }

  // What was committed in the base does not show, and can be merged from now on. Through agent objects of their own:
  // the one that is mounted takes both for changes by somebody else, and the kernel gets to know.
  Status follow_project() {
    AgentOptions how{.id_or_path = session_.file(), .durability = Durability::kProcess};
    how.hidden = hidden_;
    auto settled = WARREN_TRY(Agent::open(how, clock_));
    settle_merged(*settled).ignore("then what was merged stays a change");
    WARREN_TRY(settled->close());
    auto frozen = WARREN_TRY(Agent::open(how, clock_));
    Result<Frozen> done = freeze_work_tree(*frozen);
    bool is_too_much = done.ok() && *done == Frozen::kTooMuch;
    if (!was_too_much_) unfrozen_ = describe_unfrozen(done);  // a failure may have been mended since
    was_too_much_ = was_too_much_ || is_too_much;
    WARREN_TRY(frozen->close());
    auto other = WARREN_TRY(Agent::open(how, clock_));
    show_base_head(*other).ignore("git works without it, and the agent may have damaged its repository");
    WARREN_TRY(other->close());
    return done.ok() ? Status(Ok{}) : Status(std::move(done).take_error());
  }

  // For the run as a whole where we may, and for each process elsewhere.
  void set_limits() {
    limits_.limits = options_.limits;
    RunLimits whole = options_.limits;
    if (!whole.memory_bytes) whole.memory_bytes = default_memory();
    cgroup_ = RunCgroup::make(whole, fmt::format("{}-{}", session_.id(), ::getpid()));
    if (cgroup_ && !cgroup_->add(sandbox_->first()).ok()) cgroup_.reset();
    if (!cgroup_) return;
    limits_.limits = whole;
    limits_.cgroup = cgroup_->path();
  }

  // As the agent may use it: with the rights of user space.
  Status open_namespace() {
    std::optional<RelayMailbox> relay = options_.relay;
    if (relay) relay->bytes_max = options_.limits.disk_bytes;
    namespace_ = WARREN_TRY(AgentNamespace::open(*agent_, {.mounts = options_.mounts, .relay = relay}, clock_));
    view_ = (*namespace_)
                ->view({.agent = session_.id(),
                        .space = Space::kUser,
                        .door = std::string(kNamespaceDoor),
                        .session = session_.id()},
                       AuditReads::kByOpening);
    return Ok{};
  }

  // SIGUSR1 takes a checkpoint.
  bool continues_after_signal() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return true;
    if (info.ssi_signo != SIGUSR1) return false;
    checkpoints_->take("signal");
    return true;
  }

  void accept() {
    Fd command(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!command.is_open() || !is_trusted_peer(command.get())) return;
    std::vector<std::string> allowed = plan_.paths_of(Plan::Kind::kAllowed);
    std::vector<std::string> scratch = plan_.paths_of(Plan::Kind::kScratch);
    if (plan_.home) scratch.push_back(plan_.home->path);
    if (plan_.namespace_path) scratch.push_back(*plan_.namespace_path);
    std::vector<std::string> fields{"joined", plan_.base, std::string(word_of(options_.network.access)),
                                    plan_.namespace_path.value_or("")};
    std::vector<std::string> limits = limits_.fields();
    fields.insert(fields.end(), limits.begin(), limits.end());
    fields.push_back(std::to_string(allowed.size()));
    fields.insert(fields.end(), allowed.begin(), allowed.end());
    fields.insert(fields.end(), scratch.begin(), scratch.end());
    if (send_message(command.get(), fields, sandbox_->namespaces()).ok()) commands_.push_back({std::move(command), {}});
  }

  void handle_message(std::size_t index) {
    Result<Message> message = receive_message(commands_[index].socket.get());
    bool has_left = message.ok() && message->verb() == "leave";
    if (message.ok() && !has_left) return carry_out(*message, commands_[index]);
    Client command = std::move(commands_[index]);
    commands_.erase(commands_.begin() + static_cast<std::ptrdiff_t>(index));
    note_wish(has_left && message->fields.size() > 1 ? message->fields[1] : "");
    if (!has_left) return end_processes(command, -1);  // it was killed: nobody waits for an answer
    if (commands_.empty()) {
      last_ = std::move(command.socket);  // answered once everything is stored
      should_end_ = true;
    } else {
      acknowledge_leave(command.socket, "others");
    }
  }

  // The last run may discard what runs before it left only if they wanted that, too.
  void note_wish(std::string_view at_end) {
    is_kept_ = is_kept_ || at_end == kKeepWord;
    is_wanted_ = is_wanted_ || is_kept_ || (at_end != kDiscardWord && find_changes().anything);
  }

  void carry_out(Message& message, Client& command) {
    if (message.verb() == "checkpoint") checkpoints_->take("signal");
    if (message.fds.size() != 1) return;
    if (message.verb() == "mark") command.mark = std::move(message.fds[0]);
    if (message.verb() == "end") end_processes(command, message.fds[0].get());
  }

  void end_processes(const Client& command, int done) const {
    if (!command.mark.is_open()) return;  // it has started nothing
    sandbox_->end_run(command.mark.get(), done).ignore("the sandbox has ended, and everything in it");
  }

  void acknowledge_leave(const Fd& command, const char* which) {
    Changes changes = agent_ ? find_changes() : changes_;
    std::vector<std::string> fields{"left",
                                    which,
                                    changes.anything ? "changed" : "same",
                                    changes.memory ? "remembered" : "same",
                                    changes.refusals ? "refused" : "same",
                                    is_wanted_ ? "wanted" : "same",
                                    is_kept_ ? "kept" : "same",
                                    unfrozen_};
    if (!closed_.ok()) {
      const Error& error = closed_.error();
      fields.insert(fields.end(), {error.message(), error.hint()});
    }
    send_message(command.get(), fields).ignore("the command may have been killed");
  }

  struct Changes {
    bool anything = true;
    bool memory = false;
    bool refusals = false;  // in the namespace, and recorded
  };
  Changes find_changes() {
    bool has_refused = view_ != nullptr && view_->has_refused();
    Result<Agent::ChangeMark> now = agent_->change_mark();
    if (!now.ok()) return {.anything = true, .memory = view_ != nullptr, .refusals = has_refused};
    bool has_changed = now->everything != first_change_.everything;
    bool is_remembered = has_changed && now->names != first_change_.names;
    return {.anything = has_changed, .memory = is_remembered, .refusals = has_refused};
  }

  void close_home() {
    Status home = with_losses(home_->close(), mounted_home_->lost());
    if (home.ok()) return;
    std::string what = fmt::format("in the layer of the home: {}", home.error().message());
    closed_ = closed_.ok() ? Error(home.error().code(), std::move(what), home.error().hint())
                           : with_losses(std::move(closed_), {std::move(what)});
  }

  // Removes the socket first: a command that arrives now waits for our lock and starts another server.
  void end() {
    remove_session_socket(session_);
    listener_ = Fd();
    sandbox_->end();
    leave_watches_to_exit();
    project_.reset();
    mounted_->unmount();
    if (mounted_home_) mounted_home_->unmount();
    if (mounted_names_) mounted_names_->unmount();
    changes_ = find_changes();
    view_.reset();
    Status stored = namespace_ ? namespace_->sync_mounts() : Status(Ok{});
    namespace_.reset();
    Status anchored = anchorer_ ? anchorer_->stop() : Status(Ok{});
    anchorer_.reset();
    drop_untouched(*agent_).ignore("the next run or apply does it");
    closed_ = agent_->close();
    if (closed_.ok()) closed_ = std::move(stored);
    if (closed_.ok()) closed_ = std::move(anchored);
    closed_ = with_losses(std::move(closed_), mounted_->lost());
    if (mounted_names_) closed_ = with_losses(std::move(closed_), mounted_names_->lost());
    closed_ = checkpoints_->with_missed(std::move(closed_));
    agent_.reset();
    if (home_) close_home();
    sandbox_.reset();
    proxy_.reset();
    cgroup_.reset();
    serving_ = Fd();
    if (last_.is_open()) acknowledge_leave(last_, "last");
  }

  const SessionDir& session_;
  const Plan& plan_;
  const ServerOptions& options_;
  Clock& clock_;
  Fd serving_;
  Fd signals_;
  std::unique_ptr<ProxyProcess> proxy_;
  std::unique_ptr<Sandbox> sandbox_;
  std::unique_ptr<RunCgroup> cgroup_;
  LimitsInForce limits_;
  std::unique_ptr<HomeLayer> home_;  // outlives its mount, like the agent
  std::unique_ptr<Agent> agent_;
  std::vector<std::string> hidden_;  // paths of the host
  std::unique_ptr<ProjectWatch> project_;
  std::unique_ptr<AgentNamespace> namespace_;
  std::unique_ptr<NamespaceView> view_;  // of the namespace, if the plan has one
  std::unique_ptr<Anchorer> anchorer_;
  std::unique_ptr<Mounted> mounted_names_;
  std::unique_ptr<Mounted> mounted_home_;
  std::unique_ptr<Mounted> mounted_;
  Fd listener_;
  std::vector<Client> commands_;
  Fd last_;
  Agent::ChangeMark first_change_;
  std::unique_ptr<RunCheckpoints> checkpoints_;
  Changes changes_;
  Status closed_ = Ok{};
  std::string unfrozen_;  // why what was committed since shows (describe_unfrozen); "" if it does not
  bool was_too_much_ = false;
  bool is_wanted_ = false;  // what runs that have left made here
  bool is_kept_ = false;    // one of them said --keep
  bool should_end_ = false;
};

}  // namespace

Status start_run_server(const SessionDir& session, const Plan& plan, const ServerOptions& options, Fd& held,
                        Clock& clock) {
  Daemon daemon = WARREN_TRY(Daemon::start());
  if (!daemon.is_child()) return daemon.wait();
  held = Fd();
  ::setsid();  // signals from the terminal no longer reach this process
  RunServer server(session, plan, options, clock);
  Status started = server.start();
  if (!started.ok()) server.give_up();  // whoever hears of it removes a new session, which must not seem to run
  daemon.report(started);
  if (started.ok()) server.serve();
  ::_exit(started.ok() ? 0 : 1);
}

}  // namespace warren
