// Commands for the relay itself: up, down, status.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/relay/relay_endpoint.h"
#include "cli/relay/relay_waiting.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/processes/daemon.h"
#include "os/processes/process.h"
#include "os/processes/signals.h"
#include "relay/relay.h"

namespace warren::cli {
namespace {

constexpr std::chrono::seconds kDownWait{10};

void wait_ms(int milliseconds) { ::poll(nullptr, 0, milliseconds); }

// Our program and environment, for agents that the relay starts.
relay::LauncherOptions launcher_options() {
  relay::LauncherOptions options;
  Result<std::string> program =
      canonical_host_path("/proc/self/exe");  // fails if it was replaced: then there are no sandboxes
  if (program.ok()) options.program = *std::move(program);
  for (char** one = ::environ; *one != nullptr; ++one) options.environment.emplace_back(*one);
  return options;
}

struct Serving {
  Signals signals;
  std::unique_ptr<relay::Relay> relay;
  std::unique_ptr<net::HttpServer> endpoint;  // may be null; destroyed before the relay, whose metrics it shows
};

struct ServeOptions {
  std::optional<std::string> metrics;
  std::string ledger;
};

Result<Serving> start_serving(const std::string& path, Clock& clock, const ServeOptions& options) {
  Signals signals = WARREN_TRY(Signals::take({SIGINT, SIGTERM}));
  auto endpoint = WARREN_TRY(open_relay_endpoint(path, options.metrics));
  auto relay = WARREN_TRY(relay::Relay::start(path, clock, launcher_options(), options.ledger));
  if (endpoint != nullptr) serve_relay_metrics(*endpoint, *relay);
  return Serving{std::move(signals), std::move(relay), std::move(endpoint)};
}

// Serves until SIGINT or SIGTERM.
Status serve(const std::string& path, Clock& clock, const ServeOptions& options, Daemon* daemon) {
  Result<Serving> started = start_serving(path, clock, options);
  if (daemon != nullptr) daemon->report(started.ok() ? Status(Ok{}) : Status(started.error()));
  Serving serving = WARREN_TRY(std::move(started));
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  Fd ended(::eventfd(0, EFD_CLOEXEC));
  std::thread listener([&] {
    serving.signals.wait(ended.get()).ignore("then the relay stops as if signalled");
    ::eventfd_write(stop.get(), 1);
  });
  Status served = serving.relay->run(stop.get());
  ::eventfd_write(ended.get(), 1);
  listener.join();
  return served;
}

Result<Exit> run_up(Context& context, const Arguments& args) {
  std::string path = WARREN_TRY(relay_root_path(args));
  ServeOptions options{args.find("metrics"), args.find("ledger").value_or("")};
  if (!args.has("daemon")) {
    WARREN_TRY(serve(path, context.clock, options, nullptr));
    return Exit::kOk;
  }
  std::string absolute = path;
  if (!path.starts_with('/')) {
    std::string here = WARREN_TRY(canonical_host_path("."));
    absolute = here + "/" + path;
  }
  Daemon daemon = WARREN_TRY(Daemon::start());
  if (!daemon.is_child()) {
    WARREN_TRY(daemon.wait());
    return Exit::kOk;
  }
  Status served = serve(absolute, context.clock, options, &daemon);
  ::_exit(served.ok() ? 0 : 1);
}

Result<Exit> run_down(Context&, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  if (!root->is_locked_by_other())
    return Error(Code::kNotFound, fmt::format("no relay is running at {}", quote(root->path())));
  ProcessIdentity process = WARREN_TRY(root->find_holder());  // not from the ledger, which may be unreachable
  if (liveness_of(process) != Liveness::kAlive) {
    return Error(Code::kUnavailable, "the relay's process cannot be signalled from here");
  }
  if (::kill(static_cast<pid_t>(process.pid), SIGTERM) != 0) return system_error(errno, "signal the relay");
  for (int waited = 0; waited < std::chrono::milliseconds(kDownWait).count(); waited += 10) {
    if (!root->is_locked_by_other()) return Exit::kOk;
    wait_ms(10);
  }
  return Error(Code::kBusy,
               fmt::format("the relay (process {}) did not end within {} seconds", process.pid, kDownWait.count()));
}

Json delivery_json(const relay::Delivery& delivery) {
  Json json = {
      {"recipient", delivery.recipient}, {"state", relay::name_of(delivery.state)}, {"file", delivery.inbox_name}};
  if (delivery.attempts > 0) json["attempts"] = delivery.attempts;
  if (!delivery.error.empty()) json["error"] = printable(delivery.error);
  return json;
}

// The ledger says "completed" once a message is in all inboxes. People want to know how far its recipients are: the
// state of the least advanced delivery.
std::string_view progress_of(const relay::MessageRow& message, const std::vector<relay::Delivery>& deliveries) {
  if (message.status == "failed") return "failed";
  if (deliveries.empty()) return message.status == "completed" ? "done" : "accepted";
  using State = relay::DeliveryState;
  constexpr std::array kOrder{State::kHeld,      State::kStored, State::kRouted, State::kPending,
                              State::kDelivered, State::kRead,   State::kNacked, State::kAcked};
  auto place_of = [&](const relay::Delivery& one) { return std::find(kOrder.begin(), kOrder.end(), one.state); };
  auto is_less_advanced = [&](const relay::Delivery& a, const relay::Delivery& b) { return place_of(a) < place_of(b); };
  return relay::name_of(std::min_element(deliveries.begin(), deliveries.end(), is_less_advanced)->state);
}

Result<Exit> show_message(Context& context, const Arguments& args, relay::Ledger& ledger) {
  const std::string& id = args.get("MESSAGE");
  std::optional<relay::StoredMessage> found = WARREN_TRY(ledger.find_message(id));
  if (!found) return Error(Code::kNotFound, fmt::format("the ledger has no message {}", quote(id)));
  const relay::MessageRow& message = found->message;
  std::vector<relay::Delivery> deliveries = WARREN_TRY(ledger.list_deliveries(id));
  if (args.has("json")) {
    Json json = {{"id", message.id},
                 {"from", message.agent},
                 {"to", printable(message.target)},
                 {"kind", message.type},
                 {"status", progress_of(message, deliveries)}};
    if (!message.error.empty()) json["error"] = printable(message.error);
    json["deliveries"] = Json::array();
    for (const relay::Delivery& delivery : deliveries) json["deliveries"].push_back(delivery_json(delivery));
    context.out.json(json);
    return Exit::kOk;
  }
  context.out.print("{} {}{}\n", message.id, progress_of(message, deliveries),
                    message.error.empty() ? "" : ": " + printable(message.error));
  for (const relay::Delivery& delivery : deliveries) {
    context.out.print("  {} {}{}\n", delivery.recipient, relay::name_of(delivery.state),
                      delivery.error.empty() ? "" : ": " + printable(delivery.error));
  }
  return Exit::kOk;
}

// What the running relay says about itself, in its stats.json.
struct Stats {
  std::string metrics;  // where it serves its metrics; "": nowhere
  std::string config;   // what of config.json it does not use; "": it uses all of it
  std::vector<std::string> problems;
};

Stats stats_of_relay(const relay::Root& root) {
  Stats out;
  Result<Json> stats = read_relay_stats(root);
  Result<ProcessIdentity> process = root.find_holder();
  if (!stats.ok() || !process.ok() || !stats->contains("pid") || (*stats)["pid"] != process->pid) return out;
  auto metrics = stats->find("metrics");
  if (metrics != stats->end() && metrics->is_string()) out.metrics = printable(metrics->get<std::string>());
  auto config = stats->find("config");
  std::string remark = config != stats->end() && config->is_string() ? config->get<std::string>() : "";
  out.config = printable(relay::current_config_remark(root, remark));
  auto problems = stats->find("problems");
  if (problems == stats->end() || !problems->is_array()) return out;
  for (const Json& one : *problems) {
    if (one.is_string()) out.problems.push_back(printable(one.get<std::string>()));
  }
  return out;
}

// The ledger is unreachable, but a relay may be running and waiting for it.
Result<Exit> show_unreachable_ledger(Context& context, const Arguments& args, bool is_up, const Error& why) {
  if (args.has("json")) context.out.json({{"up", is_up}, {"ledger", "away"}, {"error", printable(why.message())}});
  return Error(Code::kUnavailable, fmt::format("{}: {}",
                                               is_up ? "the relay is running and waiting for its ledger"
                                                     : "no relay is running, and its ledger is unreachable",
                                               why.message()));
}

// There is no relay's directory.
Result<Exit> show_no_root(Context& context, const Arguments& args, const Error& why) {
  std::string path = WARREN_TRY(relay_root_path(args));
  if (args.has("json")) context.out.json({{"root", path}, {"up", false}});
  else context.out.line("down");
  context.err.print("warren: {}\n", context.err.name(why.message()));
  return Exit::kNotRunning;
}

Result<Exit> run_status(Context& context, const Arguments& args) {
  Result<std::unique_ptr<relay::Root>> there = open_relay_root(args);
  bool is_missing = !there.ok() && there.error().code() == Code::kNotFound;
  if (is_missing && !args.has("MESSAGE")) return show_no_root(context, args, there.error());
  auto root = WARREN_TRY(std::move(there));
  bool is_up = root->is_locked_by_other();
  Result<std::unique_ptr<relay::Ledger>> opened = open_relay_ledger(context, *root, relay::LedgerUse::kRead);
  bool is_away = !opened.ok() && opened.error().code() == Code::kUnavailable;
  if (is_away && !args.has("MESSAGE")) return show_unreachable_ledger(context, args, is_up, opened.error());
  auto ledger = WARREN_TRY(std::move(opened));
  if (args.has("MESSAGE")) return show_message(context, args, *ledger);
  Stats stats = is_up ? stats_of_relay(*root) : Stats{};
  Exit exit = is_up ? Exit::kOk : Exit::kNotRunning;
  relay::Counts counts = WARREN_TRY(ledger->count());
  if (auto completed = counts.messages.extract("completed")) {  // they are in all inboxes
    completed.key() = "delivered";
    counts.messages.insert(std::move(completed));
  }
  if (args.has("json")) {
    Json json = {{"root", root->path()},
                 {"up", is_up},
                 {"messages", counts.messages},
                 {"deliveries", counts.deliveries},
                 {"dead_letters", counts.dead_letters},
                 {"failed_operations", counts.failed_operations},
                 {"problems", stats.problems}};
    if (!stats.metrics.empty()) json["metrics"] = stats.metrics;
    if (!stats.config.empty()) json["config"] = stats.config;
    Result<ProcessIdentity> process = root->find_holder();
    if (is_up && process.ok()) json["pid"] = process->pid;
    context.out.json(json);
    return exit;
  }
  context.out.print("{}\n", is_up ? "up" : "down");
  for (const std::string& problem : stats.problems) context.out.print("problem: {}\n", printable(problem));
  if (!stats.config.empty()) context.out.print("config: {}\n", stats.config);
  if (!stats.metrics.empty()) context.out.print("metrics: http://{}/metrics\n", stats.metrics);
  for (const auto& [status, count] : counts.messages) {
    context.out.print("messages {}: {}\n", status, count);
  }
  for (const auto& [state, count] : counts.deliveries) context.out.print("deliveries {}: {}\n", state, count);
  context.out.print("dead letters: {}\n", counts.dead_letters);
  if (counts.failed_operations > 0) {
    context.out.print("failed operations: {} (`warren relay operations` lists them)\n", counts.failed_operations);
  }
  return exit;
}

}  // namespace

std::vector<Command> make_relay_servers() {
  Command up{.name = "up",
             .summary = "Run the relay: take messages from outboxes and deliver them",
             .details =
                 "Creates the directory if it is missing. Only one relay serves a directory. SIGTERM or `warren relay "
                 "down` stops it. However it ends, the next one continues where it stopped.",
             .options = {{.name = "daemon", .letter = 'd', .help = "continue in the background once it is running"},
                         {.name = "metrics",
                          .value = "[ADDRESS:]PORT",
                          .help = "serve /metrics and /health there, on loopback; port 0: any free port"},
                         {.name = "ledger",
                          .value = "URL",
                          .help = "a PostgreSQL database shared by relays: postgres://USER@HOST/DATABASE. Stored in "
                                  "config.json"}},
             .handler = run_up};
  Command down{.name = "down", .summary = "Stop the running relay", .details = "", .handler = run_down};
  Command status{
      .name = "status",
      .summary = "Show whether the relay is running and count messages by state, or show one message's state",
      .details = "Without MESSAGE the exit status is 0 if a relay is running, and 3 if none is.",
      .positionals = {{.name = "MESSAGE", .help = "a message's id: SENDER/STEM", .times = Times::kOptional}},
      .options = {json_option()},
      .handler = run_status};
  return {up, down, status, make_relay_tail(), make_relay_top()};
}

}  // namespace warren::cli
