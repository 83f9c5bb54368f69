#include "session/run_session.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <pwd.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/checkpoints/checkpoints.h"
#include "agent/keys/audit_key.h"
#include "agent/keys/file_key.h"
#include "agent/locate.h"
#include "agent/running.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/apply/apply_record.h"
#include "changes/pinned/linked_worktree.h"
#include "changes/upper/keep_restored.h"
#include "changes/upper/open_overlay.h"
#include "os/files/host_files.h"
#include "sandbox/enter.h"
#include "sandbox/terminal_state.h"
#include "session/command_in_session.h"
#include "session/finished_session.h"
#include "session/git_warnings.h"
#include "session/operator_places.h"
#include "session/run_server.h"
#include "session/session_walls.h"
#include "session/user_homes.h"

namespace warren {
namespace {

constexpr int kOpenTries = 100;  // to find a session that is not deleted while we wait

std::vector<std::string> names_of(const std::vector<std::string>& variables) {
  std::vector<std::string> names;
  for (const std::string& variable : variables) names.push_back(variable.substr(0, variable.find('=')));
  return names;
}

class Run {
 public:
  Run(const RunOptions& options, RunObserver& observer, Clock& clock)
      : options_(options), observer_(observer), clock_(clock) {}

  Result<int> run() {
    WARREN_TRY(check_outside_of_runs());
    ::close_range(3, ~0U, 0);  // descriptors we inherited must not reach the sandbox or its server
    WARREN_TRY(resolve());
    WARREN_TRY(enter_session());
    observer_.on_start(facts());
    TerminalState terminal = TerminalState::capture();
    Result<Ended> ended = run_command();
    bool has_run = ended.ok() && ended->problem.empty();
    if (!has_run) lift_nothing();
    session_->remove_process(::getpid());
    running_.reset();
    Result<JoinedSession::Left> left = joined_->leave(options_.at_end);
    terminal.restore();
    if (!ended.ok()) {
      tidy_up(left);
      return std::move(ended).take_error();
    }
    if (!ended->problem.empty()) observer_.on_failure(Error(Code::kNotFound, ended->problem));
    if (left.ok() && !left->warning.empty()) observer_.on_warning(left->warning);
    finish(left);
    if (left.ok() && left->failure) return *left->failure;  // more important than the command's status
    return ended->status;
  }

 private:
  Status resolve() {
    if (options_.command.empty()) {
      return Error(Code::kInvalid, "no command given, and a shell needs a terminal", "warren run -- COMMAND");
    }
    std::error_code failed;
    cwd_ = std::filesystem::current_path(failed).string();
    if (failed) return Error(Code::kNotFound, "the working directory no longer exists");
    key_sources_ = list_key_sources();
    if (options_.encryption && options_.encryption->key) key_sources_.push_back(*options_.encryption->key);
    environment_ = WARREN_TRY(choose_environment(own_environment(), options_.command, options_.variables,
                                                 options_.environment, key_variables()));
    if (options_.session) return check_agent_id(*options_.session);
    return Ok{};
  }

  // Names of variables that have keys of agent files: no command gets them.
  std::vector<std::string> key_variables() const {
    std::vector<std::string> names;
    for (const KeySource& source : key_sources_) {
      if (source.kind == KeySourceKind::kVariable) names.push_back(source.value);
    }
    return names;
  }

  // If several runs of a session start at once, one starts the server; the others wait for the lock, then join.
  Status enter_session() {
    std::string id = options_.session.value_or("");
    if (id.empty()) id = WARREN_TRY(new_session_id(options_.naming));
    Fd held = WARREN_TRY(open_session(id));
    is_new_ = WARREN_TRY(session_->is_new());
    if (options_.encryption && !is_new_) WARREN_TRY(check_encrypted());
    std::optional<struct stat> record = WARREN_TRY(find_host_file(network_record(session_->path())));
    recorded_before_ = record ? static_cast<std::uint64_t>(record->st_size) : 0;
    joined_ = WARREN_TRY(JoinedSession::join(*session_));
    if (joined_) {
      WARREN_TRY(check_joining());
      return record_process();
    }
    is_owner_ = true;
    Status started = start(held);
    if (!started.ok() && is_new_) session_->remove().ignore("the first error is the one to report");
    WARREN_TRY(std::move(started));
    return record_process();
  }

  Status check_encrypted() {
    std::optional<KeyPlace> key = WARREN_TRY(find_key_place(session_->file(), clock_));
    if (key) return check_same_key(key->source);
    return Error(Code::kInvalid, fmt::format("session {} exists already and is not encrypted", quote(session_->id())),
                 "choose another session");
  }

  // `--encrypt` alone asks for any key.
  Status check_same_key(const KeySource& own) const {
    const std::optional<KeySource>& asked = options_.encryption->key;
    if (!asked || (asked->kind == own.kind && asked->value == own.value)) return Ok{};
    return Error(Code::kInvalid,
                 fmt::format("session {} is encrypted with the key of {}, not of {}", quote(session_->id()),
                             describe(own), describe(*asked)),
                 "leave --encrypt out to resume it; `warren rekey` changes its key");
  }

  // Retries if the session was deleted while we waited for its lock: a run deletes an unchanged session when it ends.
  Result<Fd> open_session(const std::string& id) {
    for (int tries = 1;; ++tries) {
      session_ = WARREN_TRY(SessionDir::open(id));
      Result<Fd> held = session_->lock();
      bool is_gone = !held.ok() && held.error().code() == Code::kStale;
      if (!is_gone || tries == kOpenTries) return held;
    }
  }

  // Those that this run asks for, and those that earlier ones of the session did.
  Status take_kept_walls() {
    SessionWalls kept = WARREN_TRY(load_walls(session_->path()));
    TakenWalls all = WARREN_TRY(take_walls(kept, options_));
    if (!all.taken.empty()) {
      observer_.on_warning(
          fmt::format("as in earlier runs of session {}: {}", quote(session_->id()), fmt::join(all.taken, ", ")));
    }
    if (options_.network.access == NetworkAccess::kByName) {
      options_.network.upstreams = WARREN_TRY(net::Upstreams::from_environment([](const std::string& name) {
        const char* value = std::getenv(name.c_str());
        return std::string(value == nullptr ? "" : value);
      }));
    }
    keeps_walls_ = all.walls != kept;
    kept_walls_ = std::move(kept);
    walls_ = std::move(all.walls);
    missing_ = std::move(all.missing);
    return Ok{};
  }

  // After a command that never ran: what it would have lifted stays.
  void lift_nothing() {
    if (!keeps_walls_) return;
    Status stored = store_walls(session_->path(), join_walls(kept_walls_, walls_));
    if (!stored.ok()) observer_.on_failure(stored.error());
  }

  // Of the paths that earlier runs hid and that do not exist now, those whose names can be hidden: in what is served by
  // us, and in a directory that exists.
  Result<std::vector<std::string>> list_names_to_hide(const Plan& plan) const {
    std::vector<std::string> names;
    for (const std::string& path : missing_) {
      bool is_served = is_within(path, plan.base) || (plan.home && is_within(path, plan.home->path));
      bool has_dir = WARREN_TRY(find_host_file(std::string(directory_of(path))))
      .has_value();
      if (is_served && has_dir) names.push_back(path);
      else
        observer_.on_warning(
            fmt::format("{} is to be hidden, but does not exist: this run sees it if it comes back", quote(path)));
    }
    return names;
  }

  Status start(Fd& held) {
    WARREN_TRY(take_kept_walls());
    Plan plan = WARREN_TRY(plan_walls());
    std::vector<std::string> names_to_hide = WARREN_TRY(list_names_to_hide(plan));
    if (!is_new_) {
      OverlayAgent opened = WARREN_TRY(open_overlay(session_->file(), OpenMode::kReadOnly, clock_));
      WARREN_TRY(refuse_interrupted(*opened.agent, session_->id()));
    }
    if (options_.at) WARREN_TRY(go_back());
    home_ = plan.home;
    list_readable(plan);
    hidden_ = plan.paths_of(Plan::Kind::kHidden);
    hidden_.insert(hidden_.end(), plan.absent.begin(), plan.absent.end());
    home_layer_ = WARREN_TRY(home_layer_file(options_.home_layer.value_or(HomeLayerScope::kShared), plan.base));
    if (options_.has_namespace) {
      MountSources sources = options_.mounts;
      sources.agent = session_->id();
      mounts_ = WARREN_TRY(load_mounts(sources));
    }
    ServerOptions how{.network = options_.network,
                      .limits = limits(),
                      .passthrough = options_.passthrough,
                      .encryption = options_.encryption,
                      .relay = options_.relay,
                      .mounts = mounts_,
                      .anchor = options_.anchor,
                      .home_layer = home_layer_,
                      .names_to_hide = std::move(names_to_hide),
                      .checkpoint_every = options_.checkpoint_every,
                      .checkpoint_tool_calls = options_.checkpoint_tool_calls,
                      .warn = [this](const std::string& message) { observer_.on_warning(message); }};
    if (keeps_walls_ && !options_.shows_walls_only) WARREN_TRY(store_walls(session_->path(), walls_));
    WARREN_TRY(start_run_server(*session_, plan, how, held, clock_));
    joined_ = WARREN_TRY(JoinedSession::join(*session_));
    if (joined_) return Ok{};
    return Error(Code::kUnavailable, "the session's server ended right after it started");
  }

  // Those in the home are places of its view, not of the plan.
  void list_readable(const Plan& plan) {
    readable_ = plan.paths_of(Plan::Kind::kReadable);
    for (const std::string& path : options_.read) {
      std::string whole = (std::filesystem::path(cwd_) / path).lexically_normal().string();
      if (std::find(readable_.begin(), readable_.end(), whole) == readable_.end()) readable_.push_back(whole);
    }
  }

  Status go_back() {
    if (is_new_) {
      return Error(Code::kNotFound, fmt::format("session {} does not exist, so it has no checkpoint {}",
                                                quote(session_->id()), quote(*options_.at)));
    }
    auto agent = WARREN_TRY(Agent::open({.id_or_path = session_->file(), .layers = Layers::kOwn}, clock_));
    Checkpoint wanted = WARREN_TRY(get_checkpoint(*agent, *options_.at));
    Checkpoint before = WARREN_TRY(restore_checkpoint(*agent, wanted.id));
    keep_restored(agent->path(), {.id_or_path = agent->path(), .mode = OpenMode::kReadOnly, .checkpoint = before.id},
                  clock_)
        .ignore("if the base is not there, nothing can be compared with it");
    observer_.on_warning(fmt::format("session {} is what it was at checkpoint {}; what it was before is checkpoint {}",
                                     quote(session_->id()), wanted.id, before.id));
    return Ok{};
  }

  RunLimits limits() const {
    RunLimits limits = options_.limits;
    if (!limits.processes) limits.processes = kDefaultProcesses;
    return limits;
  }

  Result<Plan> plan_walls() {
    std::string home = WARREN_TRY(home_directory());
    std::string agents = WARREN_TRY(agents_home());
    // Exists from now on, so that it is hidden: the server makes the key of the audit trail there.
    std::string keys = WARREN_TRY(audit_key_directory());
    make_host_dirs(keys, 0700).ignore("if a key is to be made there, the server says why it cannot");
    PlanOptions asked{.base = options_.base.value_or(options_.repository.value_or(cwd_)),
                      .allow = options_.allow,
                      .read = options_.read,
                      .hide = options_.hide,
                      .default_allows = options_.default_allows,
                      .home_view = options_.home_view.value_or(HomeView::kTools),
                      .homes = homes_of_user(home),
                      .homes_of_others = ::geteuid() == 0 ? homes_of_others() : std::vector<std::string>(),
                      .guarded = {agents, session_->path()},
                      .operator_places = {},
                      .namespace_id = options_.has_namespace ? session_->id() : "",
                      .has_network = options_.network.access == NetworkAccess::kAll,
                      .is_root = ::geteuid() == 0};
    asked.operator_places = WARREN_TRY(list_operator_places(key_sources_));
    // The mail of the other agents there is not for this one.
    if (options_.relay) asked.hide.push_back(options_.relay->root);
    if (is_new_ && !options_.base && options_.repository && *options_.repository != cwd_) {
      observer_.on_warning(fmt::format("the base is the git repository {}; --base . takes only this directory",
                                       quote(*options_.repository)));
    }
    if (!is_new_) {
      asked.base = WARREN_TRY(session_->base().within(fmt::format("resume session {}", quote(session_->id()))));
      WARREN_TRY(check_base(asked.base));
    }
    if (std::optional<LinkedWorktree> worktree = find_linked_worktree(asked.base)) {
      for (std::string& path : paths_to_read(*worktree)) asked.read.push_back(std::move(path));
    } else if (std::optional<std::string> outside = find_git_outside(asked.base)) {
      observer_.on_warning(fmt::format("git cannot commit in this run: the repository of {} is {}, outside of it",
                                       quote(asked.base), quote(*outside)));
    }
    Plan plan = WARREN_TRY(make_plan(asked));
    Result<std::string> real_home = canonical_host_path(home);
    for (const std::string& warning : list_git_warnings(plan, real_home.ok() ? *real_home : home))
      observer_.on_warning(warning);
    std::string locked = is_new_ ? find_git_lock_warning(plan.base, clock_) : "";
    if (!locked.empty()) observer_.on_warning(locked);
    plan.processes_max = limits().processes;
    plan.scratch_bytes = options_.limits.disk_bytes;
    plan.has_proxy = options_.network.access == NetworkAccess::kByName;
    return plan;
  }

  // An existing session belongs to its base: a command that is started in another project does not mean that one.
  Status check_base(const std::string& base) const {
    if (options_.base) {
      std::string asked = WARREN_TRY(canonical_host_path(*options_.base).within("--base"));
      if (asked == base) return Ok{};
      return Error(
          Code::kInvalid,
          fmt::format("the base of session {} is {}, not {}", quote(session_->id()), quote(base), quote(asked)),
          "give another --session ID to work on the other directory");
    }
    std::string here = WARREN_TRY(canonical_host_path(cwd_));
    if (is_within(here, base)) return Ok{};
    return Error(Code::kInvalid,
                 fmt::format("the base of session {} is {}, but this command was started in {}", quote(session_->id()),
                             quote(base), quote(here)),
                 fmt::format("to work on {}, change to it or give --base; to work here, give another --session ID",
                             quote(base)));
  }

  // The run that started the server has set the sandbox's restrictions; a joiner cannot change them.
  Status check_joining() const {
    bool asks_for_walls = !options_.allow.empty() || !options_.read.empty() || !options_.hide.empty() ||
                          options_.has_asked_for_network || options_.has_asked_for_limits ||
                          options_.has_asked_for_home || options_.has_asked_for_default_allows ||
                          options_.default_allows != DefaultAllows::kSignIns || options_.passthrough ||
                          options_.has_asked_for_namespace || options_.checkpoint_every ||
                          options_.checkpoint_tool_calls || options_.has_asked_for_anchor;
    if (options_.at) {
      return Error(Code::kBusy,
                   fmt::format("session {} is running, so it cannot go back to a checkpoint", quote(session_->id())),
                   "end it first: `warren sessions` shows its commands");
    }
    if (asks_for_walls && !options_.ignores_walls_when_joining) {
      return Error(
          Code::kInvalid,
          fmt::format("session {} is running, and its sandbox cannot be changed until it ends", quote(session_->id())),
          "join it without --allow, --read, --hide, --home, --home-layer, --net, --no-network, --default-allows, "
          "--no-default-allows, limits, --no-namespace, --mount, --mounts, --relay-as, --anchor, --checkpoint and "
          "--passthrough");
    }
    return check_base(joined_->base());
  }

  Status record_process() {
    std::string command = fmt::format("{}", fmt::join(options_.command, " "));
    std::int64_t now = clock_.now().seconds;
    running_ = WARREN_TRY(RunningEntry::add({.kind = "run",
                                             .agent = session_->file(),
                                             .dir = joined_->base(),
                                             .command = command,
                                             .started_at = now,
                                             .process = {}}));
    return session_->add_process({.pid = ::getpid(),
                                  .is_owner = is_owner_,
                                  .command = options_.process_label.value_or(command),
                                  .started_at = now,
                                  .cwd = cwd_});
  }

  RunFacts facts() const {
    return {.id = session_->id(),
            .base = joined_->base(),
            .allowed = joined_->allowed(),
            .network = joined_->network(),
            .upstreams = is_owner_ ? options_.network.upstreams.names() : std::vector<std::string>(),
            .limits = joined_->limits(),
            .namespace_path = joined_->namespace_path(),
            .relay = is_owner_ ? options_.relay : std::nullopt,
            .mounts = mounts_,
            .variables = names_of(environment_.variables),
            .held_back = environment_.held_back,
            .entered_as = !is_owner_ ? EnteredAs::kJoiner
                          : is_new_  ? EnteredAs::kCreator
                                     : EnteredAs::kResumer,
            .hosts = is_owner_ ? options_.network.words : std::vector<std::string>(),
            .readable = readable_,
            .hidden = hidden_,
            .home = home_,
            .home_layer = home_layer_};
  }

  Result<Ended> run_command() {
    std::string dir = is_within(cwd_, joined_->base()) ? cwd_ : joined_->base();
    CommandInSession inside{.session = session_->id(),
                            .base = joined_->base(),
                            .namespace_path = joined_->namespace_path(),
                            .network = joined_->network(),
                            .marks_prompt = options_.marks_prompt};
    std::vector<std::string> words{"true"};
    if (!options_.shows_walls_only) words = words_inside(inside, options_.command);
    Entering entering{.namespaces = joined_->take_namespaces(),
                      .writable = joined_->writable(),
                      .dir = dir,
                      .words = std::move(words),
                      .environment = environment_inside(inside, environment_.variables, options_.variables, dir),
                      .limits = joined_->limits(),
                      .on_usr1 = [this] { joined_->ask_for_checkpoint(); },
                      .announce = [this](int mark) { return joined_->announce(mark); }};
    Result<Ended> ended = run_inside(entering);
    if (!ended.ok() || !ended->was_asked_to_end) return ended;
    Status all = joined_->end_processes();
    if (!all.ok()) observer_.on_failure(all.error());
    return ended;
  }

  // After a command that never ran: deletes the session if we created it.
  void tidy_up(const Result<JoinedSession::Left>& left) const {
    bool is_ours_alone = is_new_ && is_owner_ && left.ok() && left->was_last && !left->has_changed;
    if (is_ours_alone) delete_session(session_->id()).ignore("it can be deleted by hand");
  }

  void finish(const Result<JoinedSession::Left>& left) {
    NetworkSummary network = read_network_record(network_record(session_->path()), recorded_before_);
    if (!left.ok()) return observer_.on_end(*session_, {.fate = RunEnd::Fate::kServerLost, .network = network});
    // What was refused is kept on the record.
    bool is_untouched = is_new_ && is_owner_ && !left->has_changed && !left->has_refusals;
    bool wants_to_delete =
        options_.at_end == AtEnd::kDiscard || (options_.at_end == AtEnd::kKeepIfChanged && is_untouched);
    bool deletes = wants_to_delete && !left->is_wanted;
    RunEnd end{.has_changed = left->has_changed,
               .has_new_memory = left->has_new_memory,
               .has_refusals = left->has_refusals,
               .network = std::move(network)};
    if (deletes && left->was_last) {
      Result<bool> is_deleted = remove_unwanted();
      if (!is_deleted.ok()) return observer_.on_failure(is_deleted.error());
      if (*is_deleted) end.fate = RunEnd::Fate::kDeleted;
    } else if (options_.at_end == AtEnd::kDiscard) {
      end.fate = left->was_last ? RunEnd::Fate::kWanted : RunEnd::Fate::kStillInUse;
    } else if (may_be_finished(*left)) {
      remove_finished(end);
    }
    observer_.on_end(*session_, end);
  }

  // One without changes stays if an apply or a discard of it had --keep.
  Result<bool> remove_unwanted() const {
    if (options_.at_end == AtEnd::kKeepIfChanged) return delete_session_unless_kept(session_->id());
    WARREN_TRY(check_none_unfinished(session_->file(), session_->id()));
    WARREN_TRY(delete_session(session_->id()));
    return true;
  }

  // Nobody wants to keep a session without changes, or what it was refused. One that was resumed may have been empty
  // before, and kept.
  bool may_be_finished(const JoinedSession::Left& left) const {
    return options_.at_end == AtEnd::kKeepIfChanged && is_new_ && is_owner_ && left.was_last && left.has_changed &&
           !left.has_refusals && !left.is_kept && !left.failure;
  }

  // As after an `apply` that leaves nothing in the session. Not after one with --keep.
  void remove_finished(RunEnd& end) {
    end.summary = summarise_session(*session_, clock_);
    if (!end.summary->ok() || !(*end.summary)->is_empty()) return;
    Result<std::optional<FinishedSession>> removed = remove_if_finished(session_->file(), IfKept::kStay, clock_);
    if (!removed.ok()) {
      observer_.on_failure(std::move(removed).take_error().within("delete the session, in which nothing is left"));
    } else if (*removed) {
      end.fate = RunEnd::Fate::kFinished;
      end.ended_restrictions = std::move((*removed)->restrictions);
    }
  }

  RunOptions options_;
  RunObserver& observer_;
  Clock& clock_;
  std::string cwd_;
  EnvironmentChoice environment_;
  std::vector<KeySource> key_sources_;
  std::optional<SessionDir> session_;
  std::optional<JoinedSession> joined_;
  std::unique_ptr<RunningEntry> running_;
  std::vector<std::string> readable_;
  std::vector<std::string> hidden_;
  std::optional<Plan::Home> home_;
  std::string home_layer_;
  SessionWalls kept_walls_;            // by earlier runs
  SessionWalls walls_;                 // to keep with the session
  bool keeps_walls_ = false;           // they are not what it has already
  std::vector<std::string> missing_;   // that earlier runs hid, and that do not exist now
  std::vector<MountSpec> mounts_;      // that the server was started with
  std::uint64_t recorded_before_ = 0;  // size of the network's record when this run came
  bool is_new_ = false;
  bool is_owner_ = false;
};

}  // namespace

Status check_outside_of_runs() {
  const char* inside = std::getenv("WARREN_SANDBOX");
  if (inside == nullptr || *inside == '\0') return Ok{};
  return Error(Code::kUnsupported, "already inside `warren run`, and a run cannot start another",
               "run the command directly: everything started here is in the same sandbox");
}

Result<int> run_session(const RunOptions& options, RunObserver& observer, Clock& clock) {
  return Run(options, observer, clock).run();
}

std::string shell_of_user() {
  const char* given = std::getenv("SHELL");
  if (given != nullptr && *given == '/' && ::access(given, X_OK) == 0) return given;
  const passwd* user = ::getpwuid(::geteuid());
  bool has_one = user != nullptr && user->pw_shell != nullptr && ::access(user->pw_shell, X_OK) == 0;
  return has_one ? user->pw_shell : "/bin/sh";
}

}  // namespace warren
