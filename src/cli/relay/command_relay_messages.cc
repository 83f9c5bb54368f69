// Commands for agents: send, broadcast, inbox, ack, nack, channels, subscribe, unsubscribe.
#include <algorithm>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/relay/relay_waiting.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "relay/client/client.h"
#include "relay/protocol/names.h"

namespace warren::cli {
namespace {

constexpr std::int64_t kPollNs = 20'000'000;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::size_t kLettersSearched = 10'000;
constexpr std::size_t kBodyBytes = std::size_t{64} << 20;  // the relay's own limit is lower

// The order in which a delivery reaches the states of `--wait`.
int rank_of(relay::DeliveryState state) {
  switch (state) {
    case relay::DeliveryState::kDelivered: return 1;
    case relay::DeliveryState::kRead: return 2;
    case relay::DeliveryState::kAcked: return 3;
    case relay::DeliveryState::kNacked:
    case relay::DeliveryState::kDead: return 4;
    default: return 0;
  }
}

// What the sender or an operator can do about a message that was not delivered.
std::string what_to_do(relay::Ledger& ledger, const std::string& id) {
  Result<std::vector<relay::DeadLetter>> letters = ledger.list_dead(kLettersSearched);
  if (!letters.ok()) return "see `warren relay dead list`";
  for (const relay::DeadLetter& letter : *letters) {
    if (letter.message_id != id) continue;
    return fmt::format(
        "it is kept as dead letter {0}: `warren relay dead redeliver {0}` tries again, `warren relay dead "
        "discard {0}` dismisses it",
        letter.id);
  }
  return "see `warren relay dead list`";
}

Status check_delivery(relay::Ledger& ledger, const relay::Delivery& delivery) {
  std::string why = delivery.error.empty() ? "no reason was given" : printable(delivery.error);
  if (delivery.state == relay::DeliveryState::kNacked) {
    return Error(Code::kUnavailable, fmt::format("{} refused the message: {}", quote(delivery.recipient), why));
  }
  if (delivery.state != relay::DeliveryState::kDead) return Ok{};
  return Error(Code::kUnavailable,
               fmt::format("the message could not be delivered to {}: {}", quote(delivery.recipient), why),
               what_to_do(ledger, delivery.message_id));
}

// Whether every delivery has reached the state. Fails if one never will.
Result<bool> has_reached(relay::Ledger& ledger, const std::string& id, int wanted) {
  std::optional<relay::StoredMessage> message = WARREN_TRY(ledger.find_message(id));
  if (!message) return false;
  std::vector<relay::Delivery> deliveries = WARREN_TRY(ledger.list_deliveries(id));
  bool is_enough = true;
  for (const relay::Delivery& delivery : deliveries) {
    WARREN_TRY(check_delivery(ledger, delivery));
    is_enough = is_enough && rank_of(delivery.state) >= wanted;
  }
  bool is_refused = message->message.status == "failed" && deliveries.empty();
  if (is_refused) {
    return Error(Code::kUnavailable, printable(message->message.error), what_to_do(ledger, id));
  }
  return is_enough;
}

// False also where that cannot be seen: for another user, or in a run that sees only its own folders.
bool knows_no_relay(const relay::Root& root) {
  bool is_visible = ::faccessat(root.dir(), ".lock", R_OK, 0) == 0;
  return is_visible && !root.is_locked_by_other();
}

Status wait_for(Context& context, const Arguments& args, relay::Root& root, const std::string& id) {
  const std::string& wanted = args.get("wait");
  int rank = wanted == "delivered" ? 1 : wanted == "read" ? 2 : 3;
  std::chrono::milliseconds timeout = WARREN_TRY(parse_duration(args.get("timeout")));
  std::int64_t until = context.clock.monotonic_ns() + std::chrono::nanoseconds(timeout).count();
  auto ledger = WARREN_TRY(open_relay_ledger(context, root, relay::LedgerUse::kRead));
  // Commits to a SQLite ledger show as writes to its log in the root. Another ledger must be polled.
  bool is_watchable = ::faccessat(root.dir(), "ledger.db-wal", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  std::int64_t wait_max_ns = is_watchable ? INT64_MAX : kPollNs;
  RelayWaiting waiting = WARREN_TRY(RelayWaiting::open(root.dir()));
  while (!WARREN_TRY(has_reached(*ledger, id, rank))) {
    std::int64_t left_ns = until - context.clock.monotonic_ns();
    std::chrono::nanoseconds wait(std::clamp<std::int64_t>(left_ns, 0, wait_max_ns));
    RelayWaiting::Woken woken = WARREN_TRY(waiting.wait(wait));
    if (woken == RelayWaiting::Woken::kEnd || left_ns <= 0) {
      return Error(Code::kBusy, fmt::format("{} is not {} yet", quote(id), wanted),
                   knows_no_relay(root) ? "no relay is running: `warren relay up` starts one"
                                        : "the delivery continues: see `warren relay status`");
    }
  }
  return Ok{};
}

Result<std::string> read_body(Context& context) {
  Result<std::string> body = read_input(context, kBodyBytes);
  if (body.ok() || body.error().code() != Code::kTooLarge) return body;
  return std::move(body).take_error().with_hint("send it as a file with '--attach FILE'");
}

// The relay would refuse it, but perhaps much later: it need not run now.
Status check_recipient(std::string_view to) {
  if (to == "*" || to == relay::kOrchestrator) return Ok{};
  if (to.starts_with('#')) return relay::check_channel_name(to.substr(1));
  return relay::check_agent_name(to);
}

Result<Exit> send(Context& context, const Arguments& args, std::string to) {
  WARREN_TRY(check_recipient(to));
  auto root = WARREN_TRY(open_agent_root(args));
  if (args.has("wait")) WARREN_TRY(check_can_wait(*root));
  auto client = WARREN_TRY(open_relay_sender(context, *root, args));
  relay::Message message{.to = std::move(to)};
  message.kind = args.get("kind");
  message.thread = args.find("thread").value_or("");
  message.wants_receipt = args.has("receipt");
  if (args.has("priority")) message.priority = static_cast<int>(args.integer("priority"));
  if (args.has("BODY") && args.get("BODY") != "-") message.body = args.get("BODY") + "\n";
  else message.body = WARREN_TRY(read_body(context));
  WARREN_TRY(check_message_size(*root, message));
  WARREN_TRY(attach_files(*client, args.all("attach"), message));
  std::string id = WARREN_TRY(client->send(message));
  if (knows_no_relay(*root)) {
    context.err.print("no relay is running at {}: the message is delivered once one is\n",
                      context.err.name(root->path()));
  }
  if (args.has("wait")) WARREN_TRY(wait_for(context, args, *root, id));
  if (args.has("json")) context.out.json({{"id", id}});
  else context.out.line(id);
  return Exit::kOk;
}

Result<Exit> run_send(Context& context, const Arguments& args) { return send(context, args, args.get("TO")); }
Result<Exit> run_broadcast(Context& context, const Arguments& args) { return send(context, args, "*"); }

Json received_json(const relay::Received& received, const Json& attachments) {
  Json json = {{"file", received.file},
               {"id", received.id},
               {"from", received.sender},
               {"to", printable(received.message.to)},
               {"kind", received.message.kind}};
  if (std::int64_t at_ns = relay::timestamp_of(received.file).value_or(0); at_ns != 0) {
    json["delivered_at_us"] = at_ns / 1000;
  }
  if (!received.message.thread.empty()) set_bytes(json, "thread", received.message.thread);
  if (!received.message.reference.empty()) set_bytes(json, "reference", received.message.reference);
  for (const relay::Header& header : received.message.others) {
    bool is_shown =
        header.name == "FROM" || header.name == "ID" || relay::is_same_header(header.name, relay::kAttachmentHeader);
    if (!is_shown) set_bytes(json["headers"], header.name, header.value);
  }
  if (!attachments.empty()) json["attachments"] = attachments;
  set_bytes(json, "body", received.message.body);
  return json;
}

void show(Context& context, const relay::Received& received, const Json& attachments) {
  context.out.print("{} {} from {}", context.out.name(received.file),
                    context.out.time(relay::timestamp_of(received.file).value_or(0) / kNsPerSecond),
                    context.out.name(received.sender));
  if (received.message.kind != "message") context.out.print(" ({})", context.out.name(received.message.kind));
  if (!received.message.reference.empty()) context.out.print(" about {}", context.out.name(received.message.reference));
  if (const std::string* state = received.message.find("STATE")) context.out.print(": {}", context.out.name(*state));
  context.out.print("\n");
  std::string_view body = received.message.body;
  while (!body.empty()) {
    std::size_t end = body.find('\n');
    context.out.print("  {}\n", context.out.name(body.substr(0, end)));
    body = end == body.npos ? std::string_view() : body.substr(end + 1);
  }
  for (const Json& one : attachments) {
    std::string name = one.value("saved", one.value("name", ""));
    context.out.print("  attachment {}{}{}\n", one["hash"].get<std::string>(), name.empty() ? "" : " ",
                      context.out.name(name));
  }
}

Result<Exit> run_inbox(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_agent_root(args));
  auto client = WARREN_TRY(open_relay_client(context, *root, args.get("NAME")));
  Fd inbox = WARREN_TRY(root->open_inbox(args.get("NAME")));
  std::optional<RelayWaiting> waiting;
  if (args.has("follow")) waiting = WARREN_TRY(RelayWaiting::open(inbox.get()));
  std::set<std::string> shown;  // all of them: a message that had to wait arrives under an older name
  Exit exit = Exit::kOk;
  for (;;) {
    std::vector<std::string> files = WARREN_TRY(client->list_inbox());
    std::set<std::string> there(files.begin(), files.end());
    std::erase_if(shown, [&](const std::string& file) { return !there.contains(file); });
    for (const std::string& file : files) {
      if (!shown.insert(file).second) continue;
      Result<relay::Received> received = client->read(file);
      if (!received.ok() && received.error().code() == Code::kNotFound) continue;  // taken by another process
      Result<Json> attached = received.ok()
                                  ? save_attachments(*client, received->message, args.find("save").value_or(""))
                                  : Result<Json>(received.error());
      if (!attached.ok()) {  // leave it, and continue with the next
        context.err.print("{}: {}: {}\n", context.root.name, context.err.name(file),
                          printable(attached.error().message()));
        exit = Exit::kFailed;
        continue;
      }
      if (args.has("json")) context.out.json_line(received_json(*received, *attached));
      else show(context, *received, *attached);
      if (!args.has("take")) continue;
      WARREN_TRY(context.out.finish());  // the sender gets a receipt: only for what was printed
      WARREN_TRY(client->take(file));
    }
    if (!args.has("follow")) return exit;
    WARREN_TRY(context.out.finish());
    if (WARREN_TRY(waiting->wait()) == RelayWaiting::Woken::kEnd) return Exit::kOk;
  }
}

// The relay refuses an answer to a message that it does not know, and a second answer, but later. An agent of another
// user cannot see the ledger.
Status check_can_be_answered(Context& context, const relay::Root& root, relay::Client& client,
                             const std::string& message, relay::DeliveryState answer) {
  std::string file = WARREN_TRY(client.find_received(message));
  Result<std::unique_ptr<relay::Ledger>> ledger = open_relay_ledger(context, root, relay::LedgerUse::kRead);
  if (!ledger.ok()) return Ok{};
  Result<std::optional<relay::Delivery>> found = (*ledger)->find_in_inbox(client.agent(), file);
  if (!found.ok()) return Ok{};
  if (!*found) {
    return Error(Code::kNotFound,
                 fmt::format("the relay has delivered no message {} to {}", quote(message), quote(client.agent())),
                 fmt::format("the file {} is not the relay's, or its message was removed since then", quote(file)));
  }
  relay::DeliveryState state = (*found)->state;
  bool is_answered = state == relay::DeliveryState::kAcked || state == relay::DeliveryState::kNacked;
  if (!is_answered || state == answer) return Ok{};
  return Error(Code::kConflict,
               fmt::format("message {} is {} already; the first answer counts", quote(message), relay::name_of(state)));
}

Result<Exit> run_ack(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_agent_root(args));
  auto client = WARREN_TRY(open_relay_client(context, *root, args.get("NAME")));
  const std::string& message = args.get("MESSAGE");
  WARREN_TRY(check_can_be_answered(context, *root, *client, message, relay::DeliveryState::kAcked));
  WARREN_TRY(client->acknowledge(message));
  return Exit::kOk;
}

Result<Exit> run_nack(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_agent_root(args));
  auto client = WARREN_TRY(open_relay_client(context, *root, args.get("NAME")));
  const std::string& message = args.get("MESSAGE");
  WARREN_TRY(check_can_be_answered(context, *root, *client, message, relay::DeliveryState::kNacked));
  WARREN_TRY(client->refuse(message, args.find("REASON").value_or("")));
  return Exit::kOk;
}

Result<Exit> change_subscription(Context& context, const Arguments& args, std::string_view kind) {
  auto root = WARREN_TRY(open_agent_root(args));
  auto client = WARREN_TRY(open_relay_client(context, *root, args.get("NAME")));
  std::string_view channel = args.get("CHANNEL");
  if (channel.starts_with('#')) channel.remove_prefix(1);
  WARREN_TRY(relay::check_channel_name(channel));
  relay::Message message{.to = std::string(relay::kOrchestrator), .kind = std::string(kind)};
  message.others.push_back({"CHANNEL", fmt::format("#{}", channel)});
  WARREN_TRY(client->send(message));
  return Exit::kOk;
}

Result<Exit> run_subscribe(Context& context, const Arguments& args) {
  return change_subscription(context, args, "subscribe");
}
Result<Exit> run_unsubscribe(Context& context, const Arguments& args) {
  return change_subscription(context, args, "unsubscribe");
}

Result<Exit> run_channels(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  auto channels = WARREN_TRY(ledger->list_subscriptions());
  Json json = Json::object();
  for (const auto& [channel, agents] : channels) {
    json["#" + channel] = agents;
    if (!args.has("json")) context.out.print("#{} {}\n", channel, fmt::join(agents, " "));
  }
  if (args.has("json")) context.out.json(json);
  return Exit::kOk;
}

std::vector<Option> send_options() {
  std::vector<Option> options = relay_sender_options("the sending agent");
  std::vector<Option> own = {
      {.name = "kind",
       .value = "KIND",
       .help = "message, ack, nack, status, subscribe, unsubscribe",
       .fallback = "message"},
      {.name = "thread", .value = "ID", .help = "the conversation it belongs to"},
      {.name = "priority",
       .value = "N",
       .help = "0 (first) to 9 (last); default 5",
       .choices = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}},
      {.name = "attach",
       .value = "FILE",
       .help = "attach a file; up to 16 times",
       .suggest = Suggest::kHostFiles,
       .is_list = true},
      {.name = "receipt", .help = "request receipts, which arrive in the sender's inbox"},
      {.name = "wait",
       .value = "STATE",
       .help = "return once every delivery has reached this state",
       .choices = {"delivered", "read", "acked"}},
      {.name = "timeout", .value = "TIME", .help = "how long to wait", .kind = ValueKind::kDuration, .fallback = "30s"},
      json_option()};
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

}  // namespace

Status wait_for_redelivery(Context& context, relay::Ledger& ledger, const relay::DeadLetter& letter,
                           std::int64_t until_ns) {
  const std::string& id = letter.message_id;
  for (;;) {
    std::vector<relay::Delivery> deliveries = WARREN_TRY(ledger.list_deliveries(id));
    auto is_its = [&](const relay::Delivery& delivery) { return delivery.recipient == letter.recipient; };
    bool is_about_one = std::any_of(deliveries.begin(), deliveries.end(), is_its);
    bool is_open = false;
    for (const relay::Delivery& delivery : deliveries) {
      if (is_about_one && !is_its(delivery)) continue;
      if (delivery.state == relay::DeliveryState::kDead) WARREN_TRY(check_delivery(ledger, delivery));
      is_open = is_open || delivery.state == relay::DeliveryState::kPending ||
                delivery.state == relay::DeliveryState::kRouted;  // its relay has not taken it yet
    }
    if (!is_open) return Ok{};
    if (context.clock.monotonic_ns() > until_ns) {
      return Error(Code::kTimeout, fmt::format("{} is not delivered yet", quote(id)),
                   "the delivery continues: see `warren relay status`");
    }
    ::poll(nullptr, 0, 10);
  }
}

std::vector<Command> make_relay_messages() {
  Positional body{.name = "BODY", .help = "the text; `-` or nothing: standard input", .times = Times::kOptional};
  Positional name{.name = "NAME", .help = "the agent", .suggest = Suggest::kRelayAgents};
  Positional message{.name = "MESSAGE", .help = "its file name in the inbox, or its id"};
  Positional channel{.name = "CHANNEL", .help = "the channel, with or without #", .suggest = Suggest::kRelayChannels};
  Command sends{.name = "send",
                .summary = "Send a message, and print its id",
                .details = "TO is an agent, `*` (every other active one), `#channel`, `Lead` or `__orchestrator__`.",
                .positionals = {{.name = "TO", .help = "the recipient", .suggest = Suggest::kRelayAgents}, body},
                .options = send_options(),
                .handler = run_send};
  Command broadcast{.name = "broadcast",
                    .summary = "Send a message to every other active agent",
                    .details = "",
                    .positionals = {body},
                    .options = send_options(),
                    .handler = run_broadcast};
  Command inbox{.name = "inbox",
                .summary = "Show the messages in an agent's inbox",
                .details = "",
                .positionals = {name},
                .options = {{.name = "follow", .letter = 'f', .help = "continue as messages arrive"},
                            {.name = "take",
                             .letter = 't',
                             .help = "move each to inbox/.done once it is printed, which marks it as read"},
                            {.name = "save",
                             .value = "DIR",
                             .help = "save attachments there; a message whose attachments are unavailable is not taken",
                             .suggest = Suggest::kHostDirs},
                            {.name = "json", .help = "print JSON, one line per message"}},
                .handler = run_inbox};
  Command ack{.name = "ack",
              .summary = "Acknowledge a message, and take it out of the inbox",
              .details = "It is moved to inbox/.done, if it is still in the inbox.",
              .positionals = {name, message},
              .handler = run_ack};
  Command nack{.name = "nack",
               .summary = "Report that a message was not processed, and take it out of the inbox",
               .details = "It is moved to inbox/.done, if it is still in the inbox.",
               .positionals = {name, message, {.name = "REASON", .help = "why", .times = Times::kOptional}},
               .handler = run_nack};
  Command channels{.name = "channels",
                   .summary = "List channels and their subscribers",
                   .details = "",
                   .options = {json_option()},
                   .handler = run_channels};
  Command subscribe{.name = "subscribe",
                    .summary = "Subscribe an agent to a channel",
                    .details = "",
                    .positionals = {name, channel},
                    .handler = run_subscribe};
  Command unsubscribe{.name = "unsubscribe",
                      .summary = "Unsubscribe an agent from a channel",
                      .details = "",
                      .positionals = {name, channel},
                      .handler = run_unsubscribe};
  return {sends, broadcast, inbox, ack, nack, channels, subscribe, unsubscribe};
}

}  // namespace warren::cli
