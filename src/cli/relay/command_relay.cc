#include <fcntl.h>

#include <fmt/format.h>

#include "agent/keys/key_source.h"
#include "agent/relay_root.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/syntax/args.h"
#include "relay/ledger/open_ledger.h"
#include "relay/protocol/names.h"
#include "relay/root/registered.h"
#include "text/nearest.h"

namespace warren::cli {

Option relay_root_option() {
  return {.name = "root",
          .value = "DIR",
          .help = "the relay's directory (default ~/.agent-relay)",
          .environment = "WARREN_RELAY_ROOT",
          .suggest = Suggest::kHostDirs};
}

// The option takes the variable's value, too.
// The arguments of a line that is being completed have no defaults.
Result<std::string> relay_root_path(const Arguments& args) {
  return find_relay_root(args.find("root"), find_variable("WARREN_RELAY_ROOT"));
}

Result<std::unique_ptr<relay::Root>> open_relay_root(const Arguments& args) {
  std::string path = WARREN_TRY(relay_root_path(args));
  return relay::Root::open(path, relay::MakeRoot::kNo);
}

Result<std::unique_ptr<relay::Root>> open_agent_root(const Arguments& args) {
  std::string path = WARREN_TRY(relay_root_path(args));
  return relay::Root::open_for_agent(path);
}

namespace {

constexpr std::string_view kDefaultSender = "Operator";

// The advice is added to the hint.
Status check_named_agent(const relay::Root& root, const std::string& agent, std::string_view advice) {
  Status registered = relay::check_is_registered(root, agent, "");
  bool is_missing = !registered.ok() && registered.error().code() == Code::kNotFound;
  if (!is_missing) return registered;
  Result<std::vector<std::string>> listed = root.list_agents();
  std::vector<std::string> names = listed.ok() ? *listed : std::vector<std::string>();  // not everybody may list them
  std::string similar = nearest(agent, std::vector<std::string_view>(names.begin(), names.end()));
  std::string hint =
      similar.empty() ? "`warren relay agents` lists the agents" : fmt::format("did you mean {}?", quote(similar));
  if (!advice.empty()) hint += fmt::format("{} {}", similar.empty() ? ";" : "", advice);
  return std::move(registered).take_error().with_hint(hint);
}

Result<std::unique_ptr<relay::Client>> make_relay_client(Context& context, relay::Root& root,
                                                         const std::string& agent) {
  auto client = WARREN_TRY(relay::Client::open(root, agent, context.clock));
  if (context.environment("AGENT_RELAY_NAME") == agent) {
    client->use_token(context.environment("AGENT_RELAY_TOKEN").value_or(""));
  }
  return client;
}

}  // namespace

Status check_relay_agent(const relay::Root& root, const std::string& agent) {
  return check_named_agent(root, agent, "");
}

Result<std::unique_ptr<relay::Client>> open_relay_client(Context& context, relay::Root& root,
                                                         const std::string& agent) {
  WARREN_TRY(check_relay_agent(root, agent));
  return make_relay_client(context, root, agent);
}

std::vector<Option> relay_sender_options(std::string_view help) {
  return {{.name = "from",
           .letter = 'f',
           .value = "NAME",
           .help = help,
           .fallback = kDefaultSender,
           .environment = "AGENT_RELAY_NAME",
           .suggest = Suggest::kRelayAgents},
          {.name = "register", .help = "register the agent that --from names, if it is not registered yet"}};
}

Result<std::unique_ptr<relay::Client>> open_relay_sender(Context& context, relay::Root& root, const Arguments& args) {
  const std::string& agent = args.get("from");
  bool may_register = args.has("register") || agent == kDefaultSender;
  if (!may_register) WARREN_TRY(check_named_agent(root, agent, "to register a new agent, add --register"));
  return make_relay_client(context, root, agent);
}

Status check_can_wait(const relay::Root& root) {
  if (root.has_attachments()) return Ok{};
  return Error(Code::kDenied, "'--wait' needs the relay's ledger, which is not visible here",
               "use '--receipt', and read the receipts in the inbox");
}

Result<std::unique_ptr<relay::Ledger>> open_relay_ledger(Context& context, const relay::Root& root,
                                                         relay::LedgerUse use) {
  return relay::open_ledger_of_relay(root, use, context.clock);
}

Result<Json> read_relay_stats(const relay::Root& root) {
  constexpr std::uint64_t kStatsBytes = 1U << 20;
  relay::ReadFile file = WARREN_TRY(relay::read_below(root.dir(), "stats.json", kStatsBytes));
  Json stats = WARREN_TRY(parse_json(file.content).within("stats.json"));
  if (!stats.is_object()) return Error(Code::kCorrupt, "stats.json: not an object");
  return stats;
}

Command make_relay() {
  Command relay{.name = "relay",
                .summary = "Send messages between agents, through files",
                .details =
                    "An agent sends by renaming a file into its outbox and reads files in its inbox; the relay "
                    "records each message in a ledger and delivers it once.",
                .positionals = {},
                .options = {relay_root_option()},
                .subcommands = {},
                .handler = nullptr};
  for (auto make :
       {make_relay_servers, make_relay_messages, make_relay_agents, make_relay_caretakers, make_relay_attachments}) {
    for (Command& command : make()) {
      command.options.push_back(relay_root_option());
      for (Command& sub : command.subcommands) sub.options.push_back(relay_root_option());
      relay.subcommands.push_back(std::move(command));
    }
  }
  return relay;
}

}  // namespace warren::cli
