// Commands about agents and their processes: agents, register, spawn, release.
#include <algorithm>
#include <map>
#include <set>

#include <poll.h>

#include <fmt/format.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/user.h"
#include "relay/protocol/names.h"
#include "relay/protocol/spawn_request.h"

namespace warren::cli {
namespace {

constexpr std::size_t kPromptBytes = std::size_t{1} << 20;  // the relay's own limit is lower

Json agent_json(const relay::AgentRow& agent, const relay::Life* life) {
  Json json = {{"name", agent.name}, {"status", agent.status}, {"registered_at_us", agent.registered_at_us}};
  if (agent.last_seen_at_us != 0) json["last_seen_at_us"] = agent.last_seen_at_us;
  if (!agent.home.empty()) json["home"] = printable(agent.home);
  if (life == nullptr) return json;
  json["spawner"] = life->spawner;
  json["cli"] = life->cli;
  json["state"] = relay::name_of(life->state);
  json["working_dir"] = printable(life->dir);
  if (life->has_process()) json["pid"] = life->process.pid;
  if (life->ended_at_us != 0) json["outcome"] = printable(life->outcome);
  return json;
}

void show_agent(Context& context, const relay::AgentRow& agent, const relay::Life* life) {
  context.out.print("{} {}", printable(agent.name), printable(agent.status));
  if (life != nullptr) {
    context.out.print(" {}", relay::name_of(life->state));
    if (life->has_process()) context.out.print(" pid {}", life->process.pid);
    context.out.print(" by {}", printable(life->spawner));
    if (life->ended_at_us != 0) context.out.print(" ({})", printable(life->outcome));
  }
  if (!agent.home.empty()) context.out.print(" at {}", printable(agent.home));
  context.out.print("\n");
}

// An agent of this root without a directory was removed, even if no relay has run since then to record it. One that was
// started by the relay and was released keeps its directory.
Result<std::set<std::string>> list_removed(const relay::Root& root, relay::Ledger& ledger,
                                           const std::vector<relay::AgentRow>& agents) {
  std::vector<std::string> names = WARREN_TRY(root.list_agents());
  std::set<std::string> there(names.begin(), names.end());
  std::set<std::string> removed;
  for (const relay::AgentRow& agent : agents) {
    bool is_here = ledger.homes() == nullptr || agent.home == ledger.homes()->id();
    bool may_be_removed = is_here || agent.status == "terminated";
    if (may_be_removed && !there.contains(agent.name)) removed.insert(agent.name);
  }
  return removed;
}

Result<Exit> run_agents(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  std::vector<relay::AgentRow> agents = WARREN_TRY(ledger->list_agents());
  if (!args.has("all")) {
    std::set<std::string> removed = WARREN_TRY(list_removed(*root, *ledger, agents));
    std::erase_if(agents, [&](const relay::AgentRow& agent) { return removed.contains(agent.name); });
  }
  if (ledger->homes() != nullptr) {  // show the label instead of the id
    std::map<std::string, std::string> labels = WARREN_TRY(ledger->homes()->labels());
    for (relay::AgentRow& agent : agents) agent.home = labels[agent.home];
  }
  std::vector<relay::Life> lives = WARREN_TRY(ledger->list_lives());
  std::map<std::string, const relay::Life*> newest;
  for (const relay::Life& life : lives) newest[life.name] = &life;
  Json list = Json::array();
  for (const relay::AgentRow& agent : agents) {
    auto found = newest.find(agent.name);
    const relay::Life* life = found == newest.end() ? nullptr : found->second;
    if (args.has("json")) list.push_back(agent_json(agent, life));
    else show_agent(context, agent, life);
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

Result<Exit> run_register(Context&, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  const std::string& name = args.get("NAME");
  if (!args.has("user")) {
    WARREN_TRY(root->make_agent(name));
    return Exit::kOk;
  }
  HostUser user = WARREN_TRY(find_host_user(args.get("user")));
  WARREN_TRY(root->make_agent(name, relay::Owner{user.uid, user.gid}));
  return Exit::kOk;
}

// Waits until `is_done`. Fails if the relay refused the message or `is_done` fails.
template <class IsDone>
Status wait_until(Context& context, const Arguments& args, relay::Ledger& ledger, const std::string& id,
                  IsDone is_done) {
  std::chrono::milliseconds timeout = WARREN_TRY(parse_duration(args.get("timeout")));
  std::int64_t until = context.clock.monotonic_ns() + std::chrono::nanoseconds(timeout).count();
  for (;;) {
    std::optional<relay::StoredMessage> message = WARREN_TRY(ledger.find_message(id));
    if (message && message->message.status == "failed") {
      return Error(Code::kUnavailable, printable(message->message.error));
    }
    if (message && WARREN_TRY(is_done())) return Ok{};
    if (context.clock.monotonic_ns() > until) {
      return Error(Code::kTimeout, fmt::format("{} is not done yet", quote(id)),
                   "the request stays active: see `warren relay agents`");
    }
    ::poll(nullptr, 0, 10);
  }
}

Result<std::pair<std::string, std::string>> split_variable(const std::string& text) {
  std::size_t equals = text.find('=');
  if (equals == text.npos) return Error(Code::kInvalid, fmt::format("'--env' must be NAME=value, not {}", quote(text)));
  bool is_safe = text.find_first_of(",\r\n") == text.npos;
  if (!is_safe)
    return Error(Code::kInvalid,
                 fmt::format("{} contains a comma or a line break, which ENV does not allow", quote(text)));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<relay::SpawnRequest> spawn_request(Context& context, const Arguments& args) {
  relay::SpawnRequest request;
  request.name = args.get("NAME");
  request.cli = args.get("cli");
  request.working_dir = args.find("dir").value_or("");
  request.prompt = args.find("prompt").value_or("");
  if (request.prompt == "-") request.prompt = WARREN_TRY(read_input(context, kPromptBytes));
  if (args.has("env")) {
    for (const std::string& one : args.all("env")) {
      auto variable = WARREN_TRY(split_variable(one));
      request.env.push_back(std::move(variable));
    }
  }
  relay::SpawnRequest read = WARREN_TRY(relay::parse_spawn_request(write_spawn_request(request)));
  if (read.cli != request.cli || read.working_dir != request.working_dir) {
    return Error(Code::kInvalid, "a value starts or ends with blanks, or contains a line break");
  }
  return request;
}

Result<Exit> run_spawn(Context& context, const Arguments& args) {
  if (!args.has("cli")) return refuse(context, "--cli is required: a key of config.json's \"spawn\": \"clis\"");
  relay::SpawnRequest request = WARREN_TRY(spawn_request(context, args));
  auto root = WARREN_TRY(open_agent_root(args));
  if (args.has("wait")) WARREN_TRY(check_can_wait(*root));
  auto client = WARREN_TRY(open_relay_sender(context, *root, args));
  relay::Message message{.to = std::string(relay::kOrchestrator), .kind = "spawn"};
  message.body = write_spawn_request(request);
  std::string id = WARREN_TRY(client->send(message));
  Json json = {{"id", id}};
  if (args.has("wait")) {
    auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
    WARREN_TRY(wait_until(context, args, *ledger, id, [&]() -> Result<bool> {
      std::optional<relay::Life> life = WARREN_TRY(ledger->find_life(id));
      if (!life || life->state == relay::LifeState::kAsked) return false;
      if (life->state == relay::LifeState::kFailed) return Error(Code::kUnavailable, printable(life->outcome));
      json["pid"] = life->process.pid;
      return true;
    }));
  }
  if (args.has("json")) context.out.json(json);
  else context.out.line(id);
  return Exit::kOk;
}

Result<Exit> run_release(Context& context, const Arguments& args) {
  const std::string& name = args.get("NAME");
  WARREN_TRY(relay::check_agent_name(name));
  std::string reason = args.find("reason").value_or("");
  if (reason.find_first_of("\r\n") != reason.npos) return Error(Code::kInvalid, "'--reason' contains a line break");
  auto root = WARREN_TRY(open_agent_root(args));
  if (args.has("wait")) WARREN_TRY(check_can_wait(*root));
  auto client = WARREN_TRY(open_relay_sender(context, *root, args));
  relay::Message message{.to = std::string(relay::kOrchestrator), .kind = "release"};
  message.body = fmt::format("NAME: {}\n", name) + (reason.empty() ? "" : fmt::format("REASON: {}\n", reason));
  std::string id = WARREN_TRY(client->send(message));
  if (args.has("wait")) {
    auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
    WARREN_TRY(wait_until(context, args, *ledger, id, [&]() -> Result<bool> {
      std::vector<relay::Life> lives = WARREN_TRY(ledger->list_lives());
      return std::none_of(lives.begin(), lives.end(),
                          [&](const relay::Life& life) { return life.name == name && life.has_process(); });
    }));
  }
  if (args.has("json")) context.out.json({{"id", id}});
  else context.out.line(id);
  return Exit::kOk;
}

std::vector<Option> request_options(std::string_view wait_help) {
  std::vector<Option> options = relay_sender_options("the requesting agent");
  std::vector<Option> own = {
      {.name = "wait", .help = wait_help},
      {.name = "timeout", .value = "TIME", .help = "how long to wait", .kind = ValueKind::kDuration, .fallback = "30s"},
      json_option()};
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

Command make_spawn() {
  Command spawn{.name = "spawn",
                .summary = "Ask the relay to start an agent, and print the request's id",
                .details =
                    "The relay starts programs that config.json lists under \"spawn\": \"clis\", without a shell. The "
                    "requesting agent gets a message when the program is running, and when it has ended.",
                .positionals = {{.name = "NAME", .help = "the new agent's name"}},
                .options = {{.name = "cli", .value = "KEY", .help = "the program's key in config.json"},
                            {.name = "prompt", .value = "TEXT", .help = "its prompt; - for standard input"},
                            {.name = "dir",
                             .value = "DIR",
                             .help = "its working directory, below one of config.json's roots; relative to the first",
                             .suggest = Suggest::kHostDirs},
                            {.name = "env",
                             .value = "NAME=VALUE",
                             .help = "a variable that config.json allows",
                             .is_list = true}},
                .handler = run_spawn};
  for (Option& option : request_options("return once its process runs")) spawn.options.push_back(std::move(option));
  return spawn;
}

Command make_release() {
  Command release{
      .name = "release",
      .summary = "Ask the relay to end an agent that it started, with all its descendants",
      .details =
          "Only its ancestors and the lead may do that. It is notified and has time to save its state, then "
          "gets SIGTERM, and SIGKILL if it does not end.",
      .positionals = {{.name = "NAME", .help = "the agent", .suggest = Suggest::kRelayAgents}},
      .options = {{.name = "reason", .value = "TEXT", .help = "the reason, which is sent to the agent"}},
      .handler = run_release};
  for (Option& option : request_options("return once its process has ended"))
    release.options.push_back(std::move(option));
  return release;
}

}  // namespace

std::vector<Command> make_relay_agents() {
  Command agents{.name = "agents",
                 .summary = "List agents, and the processes of those that the relay started",
                 .details = "Agents that were removed are left out.",
                 .options = {{.name = "all", .letter = 'a', .help = "also those that were removed"}, json_option()},
                 .handler = run_agents};
  Command registers{
      .name = "register",
      .summary = "Register an agent by creating its directories",
      .details =
          "With --user, the directories belong to that user, and so does the mail that the relay puts there: other "
          "users can neither read nor list it. The relay must run as root for that. The user finds the relay's "
          "directory with --root or WARREN_RELAY_ROOT.",
      .positionals = {{.name = "NAME", .help = "the agent", .suggest = Suggest::kRelayAgents}},
      .options = {{.name = "user", .value = "USER", .help = "the user the agent runs as: a name, UID or UID:GID"}},
      .handler = run_register};
  return {agents, registers, make_relay_remove(), make_spawn(), make_release()};
}

}  // namespace warren::cli
