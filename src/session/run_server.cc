#include "session/run_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "agent/agent_state.h"
#include "agent/base_note.h"
#include "agent/checkpoints/checkpoints.h"
#include "agent/checkpoints/mounted_state.h"
#include "agent/keys/encrypted_note.h"
#include "agent/record/audit_note.h"
#include "base/ascii.h"
#include "base/path.h"
#include "changes/git/pinned_git.h"
#include "changes/upper/upper_edit.h"
#include "fuse/mounted.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/pipe.h"
#include "os/processes/daemon.h"
#include "sandbox/message.h"
#include "sandbox/sandbox.h"
#include "session/git_base.h"
#include "session/hidden_from_base.h"
#include "session/home_layer.h"
#include "session/served_agent.h"
#include "store/overlay/overlay_schema.h"

namespace warren {
namespace {

constexpr std::string_view kKeepWord = "keep";
constexpr std::string_view kDiscardWord = "discard";
constexpr int kToolCallsMs = 100;     // between two looks for tool calls that have ended
constexpr int kSignInMs = 1000;       // how long a changed sign-in may wait to be written outside
constexpr int kEndMs = 10'000;        // for killed processes to end
constexpr int kFirstJoinMs = 30'000;  // the process that started the server joins at once, unless it was killed

Result<sockaddr_un> address_of(const SessionDir& session) {
  std::string path = session.socket_path();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error(Code::kNameTooLong, "the path of the session's socket is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> open_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return system_error(errno, "open a socket");
  return socket;
}

Result<Fd> listen_for_commands(const SessionDir& session) {
  sockaddr_un address = WARREN_TRY(address_of(session));
  Fd listener = WARREN_TRY(open_socket());
  ::unlink(address.sun_path);  // left by a killed server; our lock guarantees that there is no other
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  bool is_bound = ::bind(listener.get(), generic, sizeof address) == 0 && ::listen(listener.get(), 64) == 0;
  if (!is_bound) return system_error(errno, "listen for commands");
  return listener;
}

// Creates the file under another name first, so that an existing session file is always complete.
Status make_session_file(const SessionDir& session, const Plan& plan, const std::optional<Encryption>& encryption,
                         Clock& clock) {
  const std::string& base = plan.base;
  std::string draft = session.file() + ".new";
  for (const char* suffix : {"", "-wal", "-shm"}) WARREN_TRY(remove_host_file(draft + suffix));
  StoreOptions how{.mode = OpenMode::kCreate, .durability = Durability::kProcess};
  if (encryption) {
    NewFileKey key = WARREN_TRY(make_file_key(encryption->key, session.file()));
    how.key = key.key;
  }
  {
    auto store = WARREN_TRY(Store::open(draft, how, clock));
    WARREN_TRY(make_overlay(*store, base));
    WARREN_TRY(store->database().empty_log());  // the log keeps the draft's name
  }
  WARREN_TRY(put_base_note(draft, base, NoteFor::kNewAgent));  // it belongs to the file, whatever its name is
  if (std::optional<LinkedWorktree> worktree = find_linked_worktree(base)) {
    auto agent = WARREN_TRY(Agent::open({.id_or_path = draft}, clock));
    WARREN_TRY(make_worktree_repository(*agent, base, *worktree).within("make a repository for the git worktree"));
    WARREN_TRY(empty_log_of(*agent));
  } else if (may_pin_git(plan)) {
    auto agent = WARREN_TRY(Agent::open({.id_or_path = draft, .durability = Durability::kProcess}, clock));
    WARREN_TRY(pin_git(*agent).within("copy the state of git"));
    WARREN_TRY(empty_log_of(*agent));
  }
  if (::rename(draft.c_str(), session.file().c_str()) != 0) {
    return system_error(errno, fmt::format("make {}", quote(session.file())));
  }
  forget_audit_notes(session.file()).ignore("verify then says that another file was here");
  for (const std::string& path : {draft, session.file()}) {
    note_encrypted(path, nullptr).ignore("the next opening says so, and what to do");
  }
  return Ok{};
}

// Only the same user and root may join a session, and only their server may hand us namespaces to enter.
bool is_trusted(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

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
    agent_ = WARREN_TRY(open_to_serve(how, clock_));
    show_base_head(*agent_).ignore("git works without it, and the agent may have damaged its repository");
    if (plan_.namespace_path) WARREN_TRY(open_namespace());
    if (agent_->unrecorded()) options_.warn(*agent_->unrecorded());
    anchorer_ = WARREN_TRY(Anchorer::start(*agent_, options_.anchor, clock_));
    if (options_.limits.disk_bytes) WARREN_TRY(agent_->limit_space(*options_.limits.disk_bytes));
    first_change_ = WARREN_TRY(agent_->change_mark());
    if (options_.checkpoint_tool_calls) calls_ended_ = WARREN_TRY(agent_->tools().count_ended());
    if (options_.checkpoint_every) next_checkpoint_ = std::chrono::steady_clock::now() + *options_.checkpoint_every;
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
    while (!should_end_) {
      std::vector<pollfd> all{{listener_.get(), POLLIN, 0},
                              {signals_.get(), POLLIN, 0},
                              {sandbox_->ended_fd(), POLLIN, 0},
                              {mounted_->ended_fd(), POLLIN, 0}};
      for (const Client& command : commands_) all.push_back({command.socket.get(), POLLIN, 0});
      int patience = !has_had_commands ? kFirstJoinMs : home_ ? kSignInMs : -1;
      if (has_had_commands && next_checkpoint_) patience = shorter(patience, *next_checkpoint_);
      if (has_had_commands && options_.checkpoint_tool_calls)
        patience = patience < 0 ? kToolCallsMs : std::min(patience, kToolCallsMs);
      int ready = ::poll(all.data(), all.size(), patience);
      if (ready < 0 && errno == EINTR) continue;
      if (has_had_commands) {
        if (home_) home_->write_sign_ins(HomeLayer::WhenToWrite::kAtRest);
        checkpoint_when_due();
        checkpoint_after_tool_calls();
        if (ready == 0) continue;
      }
      bool is_over = ready <= 0 || all[2].revents != 0 || all[3].revents != 0;
      if (is_over) break;
      if (all[1].revents != 0 && !continues_after_signal()) break;
      for (std::size_t i = commands_.size(); i-- > 0;) {
        if (all[4 + i].revents != 0) handle_message(i);
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
    take_automatic("signal");
    return true;
  }

  // A failure is reported at the end of the run.
  bool take_automatic(std::string_view cause) {
    std::vector<std::string> problems;
    MountedState* mounted = namespace_ ? &namespace_->mounted() : nullptr;
    Result<Checkpoint> taken =
        take_automatic_checkpoint(*agent_, {.name = cause, .cause = cause, .mounted = mounted, .problems = &problems});
    if (!problems.empty()) mounts_left_out_ = problems.back();
    if (taken.ok()) return true;
    ++checkpoints_missed_;
    checkpoint_error_ = std::move(taken).take_error();
    return false;
  }

  void checkpoint_after_tool_calls() {
    if (!options_.checkpoint_tool_calls) return;
    Result<std::uint64_t> ended = agent_->tools().count_ended();
    if (!ended.ok() || *ended == calls_ended_) return;
    calls_ended_ = *ended;
    take_automatic("tool-call");
  }

  static int shorter(int patience, std::chrono::steady_clock::time_point at) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(at - std::chrono::steady_clock::now()).count();
    int due = static_cast<int>(std::clamp<std::int64_t>(left, 0, kFirstJoinMs));
    return patience < 0 ? due : std::min(patience, due);
  }

  // Looks at working memory and at what is mounted, whose changes nobody records.
  bool have_mounts_changed() {
    if (!namespace_) return false;
    Result<MountedState::Copied> copied = namespace_->mounted().copy_in(MountedState::Unreachable::kLeaveOut);
    return copied.ok() && copied->has_changed;
  }

  // The next one is tried after the same time, whether or not this one could be taken.
  void checkpoint_when_due() {
    auto now = std::chrono::steady_clock::now();
    if (!next_checkpoint_ || now < *next_checkpoint_) return;
    next_checkpoint_ = now + *options_.checkpoint_every;
    Result<Agent::ChangeMark> mark = agent_->change_mark();
    bool is_unchanged = !mark.ok() || mark->everything == first_change_.everything;
    bool have_mounts = have_mounts_changed();
    if (is_unchanged && !have_mounts) return;
    Result<bool> has_changed = has_changed_since_checkpoint(*agent_);
    if (has_changed.ok() && *has_changed) take_automatic("interval");
  }

  void accept() {
    Fd command(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!command.is_open() || !is_trusted(command.get())) return;
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
    is_wanted_ = is_wanted_ || at_end == kKeepWord || (at_end != kDiscardWord && find_changes().anything);
  }

  void carry_out(Message& message, Client& command) {
    if (message.verb() == "checkpoint") take_automatic("signal");
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
                                    is_wanted_ ? "wanted" : "same"};
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

  void report_missed_checkpoints() {
    if (!mounts_left_out_.empty()) {
      closed_ = with_losses(std::move(closed_), {fmt::format("checkpoints lack a mount: {}", mounts_left_out_)});
    }
    if (!checkpoint_error_) return;
    std::string what = fmt::format("{} checkpoint{} could not be taken, the last because: {}", checkpoints_missed_,
                                   checkpoints_missed_ == 1 ? "" : "s", checkpoint_error_->message());
    closed_ = closed_.ok() ? Error(checkpoint_error_->code(), std::move(what), checkpoint_error_->hint())
                           : with_losses(std::move(closed_), {std::move(what)});
  }

  // Removes the socket first: a command that arrives now waits for our lock and starts another server.
  void end() {
    Result<sockaddr_un> address = address_of(session_);
    if (address.ok()) ::unlink(address->sun_path);
    listener_ = Fd();
    sandbox_->end();
    leave_watches_to_exit();
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
    report_missed_checkpoints();
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
  std::uint64_t calls_ended_ = 0;  // tool calls, at the last look
  std::string mounts_left_out_;    // of a checkpoint, and why; the last one
  int checkpoints_missed_ = 0;
  std::optional<Error> checkpoint_error_;  // the last one
  std::optional<std::chrono::steady_clock::time_point> next_checkpoint_;
  Changes changes_;
  Status closed_ = Ok{};
  bool is_wanted_ = false;  // what runs that have left made here
  bool should_end_ = false;
};

std::string_view word_of(AtEnd at_end) {
  switch (at_end) {
    case AtEnd::kKeep: return kKeepWord;
    case AtEnd::kDiscard: return kDiscardWord;
    case AtEnd::kKeepIfChanged: break;
  }
  return "keep-if-changed";
}

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

Result<std::optional<JoinedSession>> JoinedSession::join(const SessionDir& session) {
  sockaddr_un address = WARREN_TRY(address_of(session));
  Fd socket = WARREN_TRY(open_socket());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    bool is_unserved = errno == ENOENT || errno == ECONNREFUSED;
    if (is_unserved) return std::optional<JoinedSession>();
    return system_error(errno, fmt::format("join session {}", quote(session.id())));
  }
  if (!is_trusted(socket.get())) {
    return Error(Code::kNotPermitted,
                 fmt::format("session {} is served by another user's process", quote(session.id())));
  }
  Result<Message> answer = receive_message(socket.get());
  if (!answer.ok() && answer.error().code() == Code::kUnavailable) return std::optional<JoinedSession>();
  Message message = WARREN_TRY(std::move(answer));
  constexpr std::size_t kCount = 4 + LimitsInForce::kFields;  // where the number of allowed paths is
  bool is_valid = message.verb() == "joined" && message.fields.size() > kCount && message.fds.size() >= 4;
  std::size_t allowed = is_valid ? parse_number<std::size_t>(message.fields[kCount]).value_or(0) : 0;
  std::optional<NetworkAccess> network = is_valid ? find_network_access(message.fields[2]) : std::nullopt;
  if (!network || message.fields.size() - kCount - 1 < allowed)
    return Error(Code::kIo, "the session's server sent an unexpected answer");
  JoinedSession joined(std::move(socket));
  joined.base_ = message.fields[1];
  auto first = message.fields.begin() + kCount + 1;
  joined.allowed_.assign(first, first + static_cast<std::ptrdiff_t>(allowed));
  joined.writable_.assign(first, message.fields.end());
  joined.writable_.push_back(joined.base_);
  joined.namespaces_ = std::move(message.fds);
  joined.network_ = *network;
  joined.namespace_path_ = message.fields[3];
  joined.limits_ = LimitsInForce::from_fields(&message.fields[4]);
  return std::optional(std::move(joined));
}

Status JoinedSession::announce(int mark) const {
  std::array<std::string, 1> word{"mark"};
  return send_message(server_.get(), word, std::array{mark});
}

Status JoinedSession::end_processes() const {
  Pipe done = WARREN_TRY(open_pipe());
  std::array<std::string, 1> word{"end"};
  WARREN_TRY(send_message(server_.get(), word, std::array{done.writer.get()}));
  done.writer = Fd();
  pollfd ended{done.reader.get(), POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&ended, 1, kEndMs)) < 0 && errno == EINTR) continue;
  if (ready > 0) return Ok{};
  return Error(Code::kTimeout, "processes that this run started have not ended yet", "the session goes on ending them");
}

void JoinedSession::ask_for_checkpoint() {
  std::array<std::string, 1> word{"checkpoint"};
  send_message(server_.get(), word).ignore("the server has ended, and the run with it");
}

Result<JoinedSession::Left> JoinedSession::leave(AtEnd at_end) {
  std::array<std::string, 2> words{"leave", std::string(word_of(at_end))};
  WARREN_TRY(send_message(server_.get(), words));
  Message message = WARREN_TRY(receive_message(server_.get()));
  bool has_failed = message.fields.size() == 8;
  if (message.verb() != "left" || (message.fields.size() != 6 && !has_failed))
    return Error(Code::kIo, "the session's server sent an unexpected answer");
  Left left{.was_last = message.fields[1] == "last",
            .has_changed = message.fields[2] == "changed",
            .has_new_memory = message.fields[3] == "remembered",
            .has_refusals = message.fields[4] == "refused",
            .is_wanted = message.fields[5] == "wanted",
            .failure = {}};
  if (has_failed) left.failure = Error(Code::kIo, message.fields[6], message.fields[7]);
  return left;
}

}  // namespace warren
