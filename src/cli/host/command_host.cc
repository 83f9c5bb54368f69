#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>

#include "agent/keys/audit_key.h"
#include "agent/locate.h"
#include "agent/running.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/serve/server_signals.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "cli/trust/trust_input.h"
#include "cli/vfs/view.h"
#include "host/host.h"
#include "host/host_client.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/processes/daemon.h"
#include "os/user.h"
#include "session/mount_config.h"

namespace warren::cli {
namespace {

constexpr std::string_view kHostKind = "host";
constexpr std::chrono::seconds kHostDownWait{30};

// The folder of a path that may not exist yet, made absolute.
Result<std::string> absolute_socket(const Arguments& args) {
  std::optional<std::string> given = args.find("socket");
  if (!given) {
    std::string folder = WARREN_TRY(runtime_folder());
    return folder + "/host.sock";
  }
  std::string folder = WARREN_TRY(
      canonical_host_path(std::string(directory_of(*given))).within(fmt::format("--socket {}", quote(*given))));
  return join_path(folder, base_name(*given));
}

// The directory of the relay whose folders the agents have at /ipc, if there is to be one.
Result<std::optional<std::string>> find_host_relay(const Arguments& args) {
  std::optional<std::string> given = args.find("relay");
  if (!given) return given;
  Result<std::string> whole = canonical_host_path(*given);
  if (whole.ok()) return std::optional(std::move(whole).take_value());
  return Error(Code::kNotFound, fmt::format("there is no relay at {}", quote(*given)),
               fmt::format("`warren relay up --root {}` starts one", *given));
}

Result<HostOptions> host_options(Context& context, const Arguments& args) {
  HostOptions options;
  options.socket = WARREN_TRY(absolute_socket(args));
  std::string folder = join_path(args.find("dir").value_or("."), kAgentsDir);
  Result<std::string> whole = canonical_host_path(folder);
  if (!whole.ok()) {
    return Error(whole.error().code(), fmt::format("no agents at {}: {}", quote(folder), whole.error().message()),
                 "`warren init ID` makes one, and --dir DIR chooses another directory");
  }
  options.folder = std::move(whole).take_value();
  if (args.has("ID")) options.only = args.all("ID");
  for (const std::string& id : options.only) {
    WARREN_TRY(check_agent_id(id));
    std::string file = fmt::format("{}/{}.db", options.folder, id);
    if (!WARREN_TRY(find_host_file(file))) {
      return Error(Code::kNotFound, fmt::format("no agent {} at {}", quote(id), quote(file)),
                   fmt::format("`warren init {}` creates it", id));
    }
  }
  TrustFile trust = WARREN_TRY(operator_trust(context));
  options.trust_folder = std::string(directory_of(trust.path()));
  options.threshold = static_cast<int>(args.integer("threshold"));
  for (const std::string& user : args.has("user") ? args.all("user") : std::vector<std::string>()) {
    HostUser found = WARREN_TRY(find_host_user(user).within("--user"));
    options.users.push_back(found.uid);
  }
  std::optional<std::string> relay = WARREN_TRY(find_host_relay(args));
  options.namespace_of = [relay](const std::string& agent_path) -> Result<AgentNamespaceOptions> {
    AgentNamespaceOptions made;
    made.mounts = WARREN_TRY(load_mounts({.agent = agent_id_of(agent_path), .arguments = {}, .file = {}}));
    if (relay) made.relay = RelayMailbox{.root = *relay, .name = agent_id_of(agent_path)};
    return made;
  };
  return options;
}

struct ServingHost {
  std::unique_ptr<Host> host;
  std::unique_ptr<RunningEntry> entry;
  std::unique_ptr<ServerSignals> signals;  // ends before the host, whose agents it uses
};

Result<ServingHost> start_host(HostOptions options, Clock& clock) {
  std::unique_ptr<ServerSignals> signals = WARREN_TRY(ServerSignals::take());
  std::string folder = options.folder;
  std::unique_ptr<Host> host = WARREN_TRY(Host::open(std::move(options), clock));
  std::unique_ptr<RunningEntry> entry = WARREN_TRY(RunningEntry::add({.kind = std::string(kHostKind),
                                                                      .agent = folder,
                                                                      .dir = host->socket(),
                                                                      .command = "warren host up",
                                                                      .started_at = clock.now().seconds,
                                                                      .process = current_process(),
                                                                      .lost = {}}));
  return ServingHost{std::move(host), std::move(entry), std::move(signals)};
}

Status serve_host(Context& context, ServingHost serving) {
  serving.signals->listen([&] {
    for (const std::string& problem : serving.host->take_checkpoints()) {
      context.err.print("warren: {}\n", context.err.name(problem));
    }
  });
  return serving.host->serve(serving.signals->stop_fd());
}

// Agents are opened when they are first used, and nobody reads warnings then.
Status check_audit_key(Context& context) {
  Result<AuditKeys> keys = load_audit_keys();
  if (keys.ok()) return Ok{};
  if (is_audit_key_given()) return std::move(keys).take_error();
  context.err.line(fmt::format("warren: agents without an audit trail are served without one: {}",
                               context.err.name(keys.error().message())));
  return Ok{};
}

Result<Exit> run_host_up(Context& context, const Arguments& args) {
  std::int64_t threshold = args.integer("threshold");
  if (threshold < 1 || threshold > kTrustScoreMax) return refuse(context, "'--threshold' must be within 1 and 10");
  HostOptions options = WARREN_TRY(host_options(context, args));
  WARREN_TRY(check_audit_key(context));
  if (!args.has("daemon")) {
    ServingHost serving = WARREN_TRY(start_host(std::move(options), context.clock));
    context.err.print("warren: serving agents at {}\n", quote(serving.host->socket()));
    WARREN_TRY(serve_host(context, std::move(serving)));
    return Exit::kOk;
  }
  Daemon daemon = WARREN_TRY(Daemon::start());
  if (!daemon.is_child()) {
    WARREN_TRY(daemon.wait());
    return Exit::kOk;
  }
  Result<ServingHost> started = start_host(std::move(options), context.clock);
  daemon.report(started.ok() ? Status(Ok{}) : Status(started.error()));
  if (!started.ok()) ::_exit(1);
  Status served = serve_host(context, std::move(started).take_value());
  ::_exit(served.ok() ? 0 : 1);
}

// The hosts of this user that run; with --socket, only the one there.
Result<std::vector<Running>> find_hosts(const Arguments& args) {
  std::vector<Running> hosts = WARREN_TRY(list_running());
  std::optional<std::string> socket;
  if (args.has("socket")) socket = WARREN_TRY(absolute_socket(args));
  std::erase_if(hosts, [&](const Running& one) { return one.kind != kHostKind || (socket && one.dir != *socket); });
  return hosts;
}

Result<Exit> run_host_status(Context& context, const Arguments& args) {
  std::vector<Running> hosts = WARREN_TRY(find_hosts(args));
  Json list = Json::array();
  for (const Running& host : hosts) {
    Result<Json> status = ask_host_status(host.process.pid);
    if (!status.ok()) {  // it may have ended meanwhile
      context.err.print("warren: the host at {} (process {}) does not answer: {}\n", quote(host.dir), host.process.pid,
                        status.error().message());
      continue;
    }
    Json found = std::move(status).take_value();
    found.erase("ok");
    list.push_back(std::move(found));
  }
  if (args.has("json")) {
    context.out.json(list);
  } else {
    for (const Json& one : list) {
      context.out.print("{}\n", context.out.name(one.value("socket", "")));
      context.out.print("  process      {}, since {}\n", one.value("pid", 0),
                        context.out.time(one.value("started_at", std::int64_t{0})));
      context.out.print("  agents       {}, {} in use\n", context.out.name(one.value("folder", "")),
                        one.value("open_agents", 0));
      context.out.print("  threshold    {}\n", one.value("threshold", 0));
      context.out.print("  connections  {}, {} identified\n", one.value("connections", 0), one.value("identified", 0));
      context.out.print("  requests     {}, and {} clients refused\n", one.value("requests", std::uint64_t{0}),
                        one.value("refused", std::uint64_t{0}));
      if (!one.value("trust_is_readable", true)) {
        context.out.print("  nobody is served: what is trusted cannot be read; see `warren trust show`\n");
      }
    }
  }
  if (list.empty() && !args.has("json")) context.err.line("warren: no host is running");
  return list.empty() ? Exit::kNotRunning : Exit::kOk;
}

Result<Exit> run_host_down(Context&, const Arguments& args) {
  std::vector<Running> hosts = WARREN_TRY(find_hosts(args));
  if (hosts.empty()) return Error(Code::kNotFound, "no host is running");
  if (hosts.size() > 1) {
    return Error(Code::kConflict, fmt::format("{} hosts are running", hosts.size()),
                 "choose one with --socket; `warren host status` lists them");
  }
  const Running& host = hosts.front();
  if (liveness_of(host.process) != Liveness::kAlive) {
    return Error(Code::kUnavailable, "the host's process cannot be signalled from here");
  }
  if (::kill(static_cast<pid_t>(host.process.pid), SIGTERM) != 0) return system_error(errno, "signal the host");
  auto until = std::chrono::steady_clock::now() + kHostDownWait;
  while (std::chrono::steady_clock::now() < until) {
    if (liveness_of(host.process) != Liveness::kAlive) return Exit::kOk;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return Error(Code::kBusy, fmt::format("the host (process {}) did not end within {} seconds", host.process.pid,
                                        kHostDownWait.count()));
}

}  // namespace

Command make_host() {
  Option socket{.name = "socket",
                .value = "PATH",
                .help = "the socket; default: host.sock in your runtime folder",
                .suggest = Suggest::kHostFiles};
  Command up{.name = "up",
             .summary = "Serve agents until it is ended",
             .details =
                 "An agent connects with its key, which you have accepted with `warren trust add`. It uses its own "
                 "namespace, and reaches /agent/OTHER/PATH if its score is high enough, the manifest of OTHER shares "
                 "the path, and the policy of OTHER allows it. Everything else of other agents does not exist for it. "
                 "SIGUSR1 takes a checkpoint of each agent that has been used since the host was started.",
             .positionals = {{.name = "ID",
                              .help = "the agents to serve; default: all of the directory, also new ones",
                              .times = Times::kAny,
                              .suggest = Suggest::kAgents}},
             .options = {socket,
                         {.name = "dir",
                          .value = "DIR",
                          .help = "the directory whose .agentfs has the agents; default: this one",
                          .suggest = Suggest::kHostDirs},
                         {.name = "threshold",
                          .value = "N",
                          .help = "the score that an agent needs to reach others, 1 to 10",
                          .kind = ValueKind::kCount,
                          .fallback = "7"},
                         {.name = "user",
                          .value = "USER",
                          .help = "another user of this machine whose agents may connect; repeatable",
                          .is_list = true},
                         {.name = "relay",
                          .value = "DIR",
                          .help = "show each agent its folders of this relay at /ipc; its id is its name there",
                          .suggest = Suggest::kHostDirs},
                         {.name = "daemon", .letter = 'd', .help = "continue in the background once it is ready"}},
             .subcommands = {},
             .handler = run_host_up};
  Command status{.name = "status",
                 .summary = "Show the hosts that are running; exit with 3 if none is",
                 .details = "",
                 .positionals = {},
                 .options = {socket, json_option()},
                 .subcommands = {},
                 .handler = run_host_status};
  Command down{.name = "down",
               .summary = "End a host; requests that it is answering are answered",
               .details = "",
               .positionals = {},
               .options = {socket},
               .subcommands = {},
               .handler = run_host_down};
  return {.name = "host",
          .summary = "Serve many agents over a socket, isolated from each other",
          .details =
              "Agents use it with `warren vfs ID … --host SOCKET --key FILE`, the library, or any program that speaks "
              "its protocol (docs/design/trust.md).",
          .positionals = {},
          .options = {},
          .subcommands = {std::move(up), std::move(status), std::move(down)},
          .handler = nullptr};
}

}  // namespace warren::cli
