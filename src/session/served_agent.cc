#include "session/served_agent.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/checkpoints/signal_checkpoint.h"
#include "base/path.h"
#include "changes/upper/upper_edit.h"
#include "fuse/mount_point.h"
#include "fuse/unmount_guard.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/processes/child.h"
#include "os/processes/daemon.h"
#include "os/processes/signals.h"

namespace warren {
namespace {

// Removes the directory in the destructor, but never what is mounted on it.
class TemporaryDir {
 public:
  static Result<std::unique_ptr<TemporaryDir>> make() {
    const char* given = std::getenv("TMPDIR");
    std::string name = fmt::format("{}/warren-exec-XXXXXX", given != nullptr && *given == '/' ? given : "/tmp");
    if (::mkdtemp(name.data()) == nullptr) return system_error(errno, "make a temporary directory");
    return std::unique_ptr<TemporaryDir>(new TemporaryDir(std::move(name)));
  }
  ~TemporaryDir() { ::rmdir(path_.c_str()); }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Returns when it is unmounted or a signal asks us to end. SIGUSR1 takes a checkpoint.
Status wait_for_end(ServedAgent& served, Signals& signals, const ServeOptions& options) {
  for (;;) {
    int signal = WARREN_TRY(signals.wait(served.mounted().ended_fd()));
    if (signal != SIGUSR1) return Ok{};
    std::vector<std::string> problems = take_signal_checkpoint(served.agent(), served.mounted_state());
    if (!options.warn) continue;
    for (const std::string& problem : problems) options.warn(problem);
  }
}

// A mount inside its own base would deadlock: listing that directory in the base would wait for the mount itself.
Status check_outside(const std::string& dir, const std::string& base) {
  std::string point = WARREN_TRY(resolve_mount_point(dir));
  point += '/';
  if (!point.starts_with(base == "/" ? base : base + "/")) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is inside {}, the agent's base", quote(dir), quote(base)),
               "mount the agent somewhere else, or use `warren run` to see its files at the path of the base");
}

}  // namespace

SessionOptions session_options(std::optional<std::uint32_t> uid, std::optional<std::uint32_t> gid) {
  if (::geteuid() == 0) return {.uid = uid, .gid = gid};
  return {.uid = uid.value_or(::geteuid()), .gid = gid.value_or(::getegid())};
}

std::string passthrough_warning(const std::string& problem) {
  return fmt::format("--passthrough: {}; continuing without it", problem);
}

std::optional<std::string> find_log_warning(const std::string& agent_path) {
  std::string log = agent_path + "-wal";
  Result<std::optional<struct stat>> there = find_host_link(log);
  if (!there.ok() || !*there || (*there)->st_size == 0) return std::nullopt;
  Result<std::vector<Running>> running = list_running();
  bool is_in_use = running.ok() && std::any_of(running->begin(), running->end(),
                                               [&](const Running& one) { return one.agent == agent_path; });
  if (is_in_use) return std::nullopt;
  return fmt::format(
      "{} contains changes that are not in the agent's file yet, because the disk is full or another process is using "
      "it; keep the two files together until the agent has been opened and closed again",
      quote(log));
}

Status with_losses(Status closed, const std::vector<std::string>& lost) {
  if (lost.empty()) return closed;
  std::string all = fmt::format("{}", fmt::join(lost, "; "));
  if (closed.ok()) return Error(Code::kIo, std::move(all));
  return Error(closed.error().code(), fmt::format("{}; {}", closed.error().message(), all), closed.error().hint());
}

Result<std::unique_ptr<ServedAgent>> ServedAgent::mount(const ServeOptions& options, Clock& clock) {
  auto served = std::make_unique<ServedAgent>();
  // Between fsyncs a filesystem need not be durable, unless that was requested; the kernel asks when a program does.
  AgentOptions how{.id_or_path = options.agent_path,
                   .mode = options.read_only ? OpenMode::kReadOnly : OpenMode::kReadWrite,
                   .durability = options.sync ? Durability::kPower : Durability::kProcess,
                   .commits = options.sync ? Commits::kEach : Commits::kGrouped,
                   .layers = options.namespaces ? Layers::kOwn : Layers::kMerged};
  std::string door = options.namespaces ? std::string(kNamespaceDoor) : options.kind;
  how.caller = {.agent = {}, .space = Space::kUser, .door = std::move(door), .session = {}};
  how.audit_reads = AuditReads::kByOpening;
  how.may_record = true;  // the kernel refuses changes through a read-only mount
  ToServe opened = WARREN_TRY(open_to_serve(how, clock));
  served->agent_ = std::move(opened.agent);
  if (!opened.warning.empty() && options.warn) options.warn(opened.warning);
  bool shows_base = served->agent_->base() && !options.namespaces;
  if (shows_base) WARREN_TRY(check_outside(options.dir, *served->agent_->base()));
  if (options.namespaces) {
    served->namespace_ = WARREN_TRY(AgentNamespace::open(*served->agent_, {.mounts = options.mounts}, clock));
    served->view_ = (*served->namespace_)
                        ->view({.agent = served->namespace_->agent_id(),
                                .space = Space::kUser,
                                .door = std::string(kNamespaceDoor),
                                .session = {}},
                               AuditReads::kByOpening);
  }
  if (served->agent_->unrecorded() && options.warn) options.warn(*served->agent_->unrecorded());
  served->anchorer_ = WARREN_TRY(Anchorer::start(*served->agent_, options.anchor, clock));
  SessionOptions session = options.session;
  session.flushes = !options.mounts.empty();
  session.opens = served->view_ ? served->view_->is_recorded() : served->agent_->records_reads();
  session.when_lost = [it = served.get()](const std::vector<std::string>& lost) { it->show_lost(lost); };
  FileSystem& shown = served->view_ ? static_cast<FileSystem&>(*served->view_) : served->agent_->fs();
  served->mounted_ = WARREN_TRY(Mounted::mount(shown, options.dir,
                                               {.source = options.agent_path,
                                                .audience = options.audience,
                                                .read_only = options.read_only,
                                                .no_exec = options.no_exec},
                                               session));
  std::string problem = served->mounted_->passthrough_problem();
  if (!problem.empty() && options.warn) options.warn(passthrough_warning(problem));
  std::lock_guard guard(served->running_mutex_);
  served->running_ = WARREN_TRY(RunningEntry::add({.kind = options.kind,
                                                   .agent = options.agent_path,
                                                   .dir = served->mounted_->dir(),
                                                   .command = options.command,
                                                   .started_at = clock.now().seconds,
                                                   .process = {},
                                                   .lost = served->lost_}));
  return served;
}

void ServedAgent::show_lost(const std::vector<std::string>& lost) {
  std::lock_guard guard(running_mutex_);
  lost_ = fmt::format("{}", fmt::join(lost, "; "));
  if (running_) running_->set_lost(lost_);
}

Status ServedAgent::close() {
  mounted_->unmount();
  std::vector<std::string> lost = mounted_->lost();
  mounted_.reset();
  view_.reset();
  Status stored = namespace_ ? namespace_->sync_mounts() : Status(Ok{});
  namespace_.reset();
  Status anchored = anchorer_ ? anchorer_->stop() : Status(Ok{});
  anchorer_.reset();
  drop_untouched(*agent_).ignore("the next mount or apply does it");
  Status closed = agent_->close();
  if (closed.ok()) closed = std::move(stored);
  if (closed.ok()) closed = std::move(anchored);
  closed = with_losses(std::move(closed), lost);
  agent_.reset();
  if (!closed.ok()) running_->leave_failure(closed.error());
  return closed;
}

Status serve_agent(const ServeOptions& options, Foreground foreground, Clock& clock) {
  std::optional<Daemon> daemon;
  if (foreground == Foreground::kNo) {
    daemon = WARREN_TRY(Daemon::start());
    if (!daemon->is_child()) return daemon->wait();
  }
  auto begin = [&](std::unique_ptr<UnmountGuard>& guard) -> Result<std::unique_ptr<ServedAgent>> {
    if (options.auto_unmount) guard = WARREN_TRY(UnmountGuard::start(options.dir));
    return ServedAgent::mount(options, clock);
  };
  Signals signals = WARREN_TRY(Signals::take({SIGTERM, SIGINT, SIGHUP, SIGUSR1}));
  std::unique_ptr<UnmountGuard> guard;
  Result<std::unique_ptr<ServedAgent>> served = begin(guard);
  if (daemon) daemon->report(served.ok() ? Status(Ok{}) : Status(served.error()));
  if (!served.ok()) {
    if (daemon) ::_exit(1);  // the parent reports the error
    return std::move(served).error();
  }
  Status ended = wait_for_end(**served, signals, options);
  Status closed = (*served)->close();
  std::move(served).take_value().reset();
  WARREN_TRY(std::move(closed));
  if (std::optional<std::string> warning = find_log_warning(options.agent_path); warning && options.warn) {
    options.warn(*warning);
  }
  return ended;
}

Result<int> run_in_agent(const std::string& agent_path, const std::vector<std::string>& command, Clock& clock) {
  // A signal must not end us between mounting and unmounting; run_child lets them through for the command.
  WARREN_TRY(Signals::take({SIGTERM, SIGINT, SIGQUIT, SIGHUP}));
  std::unique_ptr<TemporaryDir> dir = WARREN_TRY(TemporaryDir::make());
  std::unique_ptr<ServedAgent> served =
      WARREN_TRY(ServedAgent::mount({.agent_path = agent_path,
                                     .dir = dir->path(),
                                     .kind = "exec",
                                     .command = fmt::format("{}", fmt::join(command, " ")),
                                     .session = session_options({}, {})},
                                    clock));
  Result<int> status = run_child(command, served->mounted().dir());
  WARREN_TRY(served->close());
  return status;
}

}  // namespace warren
