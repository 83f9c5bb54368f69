// serve: doors that programs use. `serve mcp` is the one for models.
#include <cerrno>
#include <csignal>
#include <thread>

#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/checkpoints.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/version.h"
#include "cli/vfs/view.h"
#include "mcp/service.h"
#include "mcp/stdio.h"
#include "os/error.h"
#include "os/signals.h"

namespace warren::cli {
namespace {

// The agent's namespace as the caller of this door sees it. Each answer is durable, but not each commit: the server
// syncs before it acknowledges a change.
Result<OpenView> open_served_view(Context& context, const Arguments& args) {
  OpenView view;
  AgentOptions options{.id_or_path = args.get("ID"),
                       .mode = args.has("read-only") ? OpenMode::kReadOnly : OpenMode::kReadWrite,
                       .durability = Durability::kProcess,
                       .layers = Layers::kOwn,
                       .may_record = true};
  Result<std::unique_ptr<Agent>> agent = Agent::open(options, context.clock);
  if (!agent.ok() && (agent.error().code() == Code::kReadOnly || agent.error().code() == Code::kDenied)) {
    options.mode = OpenMode::kReadOnly;
    agent = Agent::open(options, context.clock);
  }
  view.agent = WARREN_TRY(std::move(agent));
  std::vector<MountSpec> mounts = WARREN_TRY(mounts_of(args, view.agent->path()));
  view.names = WARREN_TRY(AgentNamespace::open(*view.agent, {.mounts = mounts}, context.clock));
  warn_if_unrecorded(context, *view.agent);
  view.fs = (*view.names)
                ->view({.agent = view.names->agent_id(),
                        .space = args.has("as-operator") ? Space::kKernel : Space::kUser,
                        .door = "mcp",
                        .session = {},
                        .trace = trace_of(context)});
  return view;
}

// Ends the server at SIGINT and SIGTERM, and takes a checkpoint at SIGUSR1.
class ServerSignals {
 public:
  static Result<std::unique_ptr<ServerSignals>> take() {
    Signals signals = WARREN_TRY(Signals::take({SIGINT, SIGTERM, SIGUSR1}));
    Fd stop(::eventfd(0, EFD_CLOEXEC));
    Fd ended(::eventfd(0, EFD_CLOEXEC));
    if (!stop.is_open() || !ended.is_open()) return system_error(errno, "make an event");
    return std::unique_ptr<ServerSignals>(new ServerSignals(std::move(signals), std::move(stop), std::move(ended)));
  }
  ~ServerSignals() {
    ::eventfd_write(ended_.get(), 1);
    if (listener_.joinable()) listener_.join();
  }
  ServerSignals(const ServerSignals&) = delete;
  ServerSignals& operator=(const ServerSignals&) = delete;

  int stop_fd() const { return stop_.get(); }

  void listen(Context& context, Agent& agent, MountedState& mounted) {
    listener_ = std::thread([this, &context, &agent, &mounted] {
      for (;;) {
        Result<int> got = signals_.wait(ended_.get());
        if (got.ok() && *got == 0) return;
        if (!got.ok() || *got != SIGUSR1) break;
        std::vector<std::string> problems;
        Result<Checkpoint> taken = take_automatic_checkpoint(
            agent, {.name = "signal", .cause = "signal", .mounted = &mounted, .problems = &problems});
        for (const std::string& problem : problems) context.err.print("warren: {}\n", problem);
        if (!taken.ok()) context.err.print("warren: no checkpoint was taken: {}\n", taken.error().message());
      }
      ::eventfd_write(stop_.get(), 1);
    });
  }

 private:
  ServerSignals(Signals signals, Fd stop, Fd ended)
      : signals_(std::move(signals)), stop_(std::move(stop)), ended_(std::move(ended)) {}

  Signals signals_;
  Fd stop_;
  Fd ended_;
  std::thread listener_;
};

Result<mcp::ServiceOptions> mcp_options(Context& context, const Arguments& args, const Agent& agent) {
  mcp::ServiceOptions options;
  options.is_read_only = args.has("read-only") || agent.is_read_only();
  options.tools =
      WARREN_TRY(mcp::select_tools(args.find("tools").value_or(""), options.is_read_only).within("--tools"));
  options.version = kVersion;
  options.session = fmt::format("mcp-{}-{}", context.clock.now().seconds, ::getpid());
  return options;
}

Result<Exit> run_serve_mcp(Context& context, const Arguments& args) {
  // Before any thread is started, so that all of them leave the signals to us.
  std::unique_ptr<ServerSignals> signals = WARREN_TRY(ServerSignals::take());
  OpenView view = WARREN_TRY(open_served_view(context, args));
  mcp::ServiceOptions options = WARREN_TRY(mcp_options(context, args, *view.agent));
  mcp::Service service(*view.agent, *view.names, *view.fs, context.clock, std::move(options));
  signals->listen(context, *view.agent, view.names->mounted());
  WARREN_TRY(
      mcp::serve_stdio(service, {.input = context.input, .output = STDOUT_FILENO, .stop_fd = signals->stop_fd()}));
  signals.reset();
  WARREN_TRY(view.fs->check_recorded());
  return Exit::kOk;
}

Command make_serve_mcp() {
  std::vector<Option> options{
      {.name = "tools",
       .value = "LIST",
       .help = "offer only these tools or groups, with commas: files, keys, vfs, memory, checkpoints, read_file, …"},
      {.name = "read-only", .help = "offer only tools that change nothing"},
      {.name = "as-operator", .help = "use the operator's rights instead of the agent's own"}};
  for (Option& one : mount_options()) options.push_back(std::move(one));
  return {
      .name = "mcp",
      .summary = "Serve an agent to a client of the Model Context Protocol, over standard input and output",
      .details =
          "The client gets the agent's files, keys, memory and checkpoints as tools and resources, with the agent's "
          "own rights, under the rules of its policy. Every call is in the agent's trail (`warren timeline`). It "
          "speaks the revisions 2024-11-05 to 2026-07-28. It ends with its input. SIGUSR1 takes a checkpoint.",
      .positionals = {id_argument()},
      .options = std::move(options),
      .subcommands = {},
      .handler = run_serve_mcp};
}

}  // namespace

Command make_serve() {
  return {.name = "serve",
          .summary = "Serve an agent to programs that speak a protocol",
          .details = "",
          .positionals = {},
          .options = {},
          .subcommands = {make_serve_mcp()},
          .handler = nullptr};
}

}  // namespace warren::cli
