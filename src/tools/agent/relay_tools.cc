// The tools of messages: relay_send, relay_inbox, relay_ack, relay_agents. The mail is that of ToolReach::relay.
#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "base/utf8.h"
#include "relay/client/client.h"
#include "relay/ledger/open_ledger.h"
#include "relay/protocol/names.h"
#include "relay/root/registered.h"
#include "tools/files/file_tools.h"
#include "tools/schema.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::size_t kBodyBytesMax = std::size_t{1} << 20;     // of a message that is sent
constexpr std::size_t kInboxBytes = std::size_t{256} << 10;     // of the bodies in one answer
constexpr std::size_t kShownBodyBytes = std::size_t{64} << 10;  // of one of them; the rest is in the file
constexpr std::size_t kInboxMessages = 50;
constexpr std::string_view kInboxPath = "/ipc/inbox";
constexpr std::string_view kOutboxPath = "/ipc/outbox";

ToolAnswer mail_answer(Result<ToolAnswer> made) {
  if (made.ok()) return std::move(made).take_value();
  ToolAnswer answer;
  std::string hint = made.error().hint();
  if (hint.empty() && made.error().code() == Code::kNotFound) hint = "See who is there: relay_agents {}";
  answer.error = tool_error(made.error(), std::move(hint));
  return answer;
}

Error no_relay(const std::string& root, std::string_view hint) {
  return {Code::kUnavailable, fmt::format("no relay is running at {}", quote(root)), std::string(hint)};
}

// The operator has the relay's own commands; for it, the namespace's table is about the relay's side of the folders.
Status check_mail_right(ToolContext& context, Rights::Operation operation, std::string_view folder,
                        std::string_view op) {
  if (context.view.caller().space == Space::kKernel) return Ok{};
  return check_right(context, operation, fmt::format("{}/message", folder), op);
}

// The agent's mailbox, open for one call.
struct OpenMail {
  std::unique_ptr<relay::Root> root;
  std::unique_ptr<relay::Client> client;
};

// The operator has named the mailbox, so it must exist: a typo must not create one.
Result<OpenMail> open_mail(const ToolContext& context) {
  const RelayPlace& place = *context.reach->relay;
  OpenMail mail;
  Result<std::unique_ptr<relay::Root>> root = relay::Root::open_for_agent(place.root);
  if (!root.ok() && root.error().code() == Code::kNotFound) {
    return no_relay(place.root, "Ask the operator to start the relay.");
  }
  mail.root = WARREN_TRY(std::move(root));
  WARREN_TRY(relay::check_is_registered(*mail.root, place.name, "Ask the operator to register this agent there."));
  mail.client = WARREN_TRY(relay::Client::open(*mail.root, place.name, context.clock));
  mail.client->use_token(place.token);
  return mail;
}

// False also where that cannot be seen, for another user.
bool is_known_to_be_down(const relay::Root& root) {
  bool is_visible = ::faccessat(root.dir(), ".lock", R_OK, 0) == 0;
  return is_visible && !root.is_locked_by_other();
}

Status check_recipient(std::string_view to) {
  if (to == "*" || to == relay::kOrchestrator || to == relay::kLead) return Ok{};
  if (to.starts_with('#')) return relay::check_channel_name(to.substr(1));
  return relay::check_agent_name(to);
}

Result<ToolAnswer> send_answer(ToolContext& context, const Json& arguments) {
  WARREN_TRY(check_mail_right(context, Rights::kCreate, kOutboxPath, "send"));
  relay::Message message{.to = text_argument(arguments, "to")};
  WARREN_TRY(check_recipient(message.to));
  message.body = text_argument(arguments, "body");
  if (message.body.size() > kBodyBytesMax) {
    return Error(Code::kTooLarge,
                 fmt::format("a body has at most {} bytes, and this one {}", kBodyBytesMax, message.body.size()),
                 "Write it to a file that the recipient can read, and send its path.");
  }
  if (!message.body.ends_with('\n')) message.body += '\n';
  message.thread = text_argument(arguments, "thread");
  message.wants_receipt = flag_argument(arguments, "receipt");
  message.priority = static_cast<int>(count_argument(arguments, "priority", relay::kPriorityDefault));
  OpenMail mail = WARREN_TRY(open_mail(context));
  bool is_down = is_known_to_be_down(*mail.root);
  if (is_down && !flag_argument(arguments, "queue")) {
    return no_relay(mail.root->path(),
                    "Ask the operator to start one, or send it with \"queue\": true: it is kept, "
                    "and delivered once a relay runs.");
  }
  std::string id = WARREN_TRY(mail.client->send(message));
  WARREN_TRY(context.view.record("send", fmt::format("{}/{}.msg", kOutboxPath, base_name(id)), Status(Ok{})));
  ToolAnswer answer;
  answer.structured["id"] = id;
  answer.structured["is_queued"] = is_down;
  answer.text = fmt::format("Sent {} to {}{}", id, message.to, is_down ? "; it is delivered once a relay runs" : "");
  return answer;
}

// What is not UTF-8 comes as base64, cut where a text would be.
void set_body(Json& to, const std::string& body) {
  bool is_text = is_utf8(body);
  std::size_t end = std::min(body.size(), kShownBodyBytes);
  while (is_text && end > 0 && end < body.size() && (static_cast<unsigned char>(body[end]) & 0xC0U) == 0x80U) --end;
  set_path_text(to, "body", std::string_view(body).substr(0, end));
  to["is_cut"] = end < body.size();
}

Json message_json(const relay::Received& received) {
  Json one{{"file", received.file}};
  set_path_text(one, "id", received.id);
  set_path_text(one, "from", received.sender);
  set_path_text(one, "kind", received.message.kind);
  if (!received.message.thread.empty()) set_path_text(one, "thread", received.message.thread);
  if (!received.message.reference.empty()) set_path_text(one, "reference", received.message.reference);
  set_body(one, received.message.body);
  return one;
}

struct InboxPage {
  Json messages = Json::array();
  Json unreadable = Json::array();
  std::string text;
  std::string last;
  bool has_more = false;
};

void add_message(InboxPage& page, const std::string& file, const Result<relay::Received>& received) {
  page.last = file;
  if (!received.ok()) {  // what is not a message stays, and is named
    page.unreadable.push_back({{"file", file}, {"why", received.error().message()}});
    return;
  }
  Json one = message_json(*received);
  page.text += fmt::format("{} from {} ({}):\n{}\n", file, one["from"].get<std::string>(),
                           one["kind"].get<std::string>(), one["body"].get<std::string>());
  page.messages.push_back(std::move(one));
}

Result<ToolAnswer> inbox_answer(ToolContext& context, const Json& arguments) {
  WARREN_TRY(check_mail_right(context, Rights::kList, kInboxPath, "list"));
  WARREN_TRY(check_mail_right(context, Rights::kRead, kInboxPath, "read"));
  OpenMail mail = WARREN_TRY(open_mail(context));
  std::string after = text_argument(arguments, "after");
  std::size_t limit = std::min<std::size_t>(count_argument(arguments, "limit", kInboxMessages), kInboxMessages);
  std::vector<std::string> files = WARREN_TRY(mail.client->list_inbox());
  std::size_t total = files.size();
  InboxPage page;
  for (const std::string& file : files) {
    WARREN_TRY(check_cancelled(context));
    if (file <= after) continue;
    if (page.messages.size() + page.unreadable.size() == limit || page.text.size() > kInboxBytes) {
      page.has_more = true;
      break;
    }
    Result<relay::Received> received = mail.client->read(file);
    if (!received.ok() && received.error().code() == Code::kNotFound) continue;  // taken by another process
    add_message(page, file, received);
  }
  WARREN_TRY(context.view.record("read", kInboxPath, Status(Ok{})));
  ToolAnswer answer;
  answer.text = !page.text.empty() ? std::move(page.text)
                : total == 0       ? "the inbox is empty"
                : page.unreadable.empty()
                    ? fmt::format("nothing here; the inbox has {} files in all", total)
                    : fmt::format("no readable message here; {} files are not messages", page.unreadable.size());
  if (is_known_to_be_down(*mail.root)) answer.text += "\n(no relay is running, so nothing new arrives)";
  answer.structured["messages"] = std::move(page.messages);
  answer.structured["unreadable"] = std::move(page.unreadable);
  answer.structured["total"] = total;
  answer.structured["next_after"] = page.has_more ? Json(page.last) : Json(nullptr);
  return answer;
}

// What is still in the inbox. kNotFound.
Result<relay::Received> read_referenced(relay::Client& client, const std::string& which) {
  std::string hint = "See what there is: relay_inbox {}";
  Result<std::string> file = client.find_received(which);
  if (!file.ok()) return std::move(file).take_error().with_hint(hint);
  Result<relay::Received> received = client.read(*file);
  bool is_gone = !received.ok() && received.error().code() == Code::kNotFound;
  if (!is_gone) return received;
  return Error(Code::kNotFound, fmt::format("there is no message {} in the inbox", quote(which)), std::move(hint));
}

Result<ToolAnswer> ack_answer(ToolContext& context, const Json& arguments) {
  WARREN_TRY(check_mail_right(context, Rights::kDelete, kInboxPath, "ack"));
  WARREN_TRY(check_mail_right(context, Rights::kCreate, kOutboxPath, "ack"));
  OpenMail mail = WARREN_TRY(open_mail(context));
  relay::Received received = WARREN_TRY(read_referenced(*mail.client, text_argument(arguments, "message")));
  std::string refused = text_argument(arguments, "refused_because");
  WARREN_TRY(refused.empty() ? mail.client->acknowledge(received.file) : mail.client->refuse(received.file, refused));
  WARREN_TRY(context.view.record("ack", fmt::format("{}/{}", kInboxPath, received.file), Status(Ok{})));
  ToolAnswer answer;
  answer.structured["file"] = received.file;
  set_path_text(answer.structured, "id", received.id);
  answer.structured["is_refused"] = !refused.empty();
  answer.text =
      fmt::format("{} {}; it has left the inbox", refused.empty() ? "Acknowledged" : "Refused", received.file);
  return answer;
}

Result<ToolAnswer> agents_answer(ToolContext& context) {
  WARREN_TRY(check_mail_right(context, Rights::kCreate, kOutboxPath, "list"));
  const RelayPlace& place = *context.reach->relay;
  Result<std::unique_ptr<relay::Root>> root = relay::Root::open(place.root, relay::MakeRoot::kNo);
  if (!root.ok() && root.error().code() == Code::kNotFound) {
    return no_relay(place.root, "Ask the operator to start the relay.");
  }
  std::unique_ptr<relay::Root> opened = WARREN_TRY(std::move(root));
  auto ledger = WARREN_TRY(relay::open_ledger_of_relay(*opened, relay::LedgerUse::kRead, context.clock));
  std::vector<relay::AgentRow> agents = WARREN_TRY(ledger->list_agents());
  std::erase_if(agents, [](const relay::AgentRow& agent) { return agent.status == "terminated"; });  // out of reach
  ToolAnswer answer;
  Json list = Json::array();
  for (const relay::AgentRow& agent : agents) {
    if (list.size() == kToolPageEntries) break;
    Json one = Json::object();
    set_path_text(one, "name", agent.name);
    one["status"] = agent.status;
    one["is_self"] = agent.name == place.name;
    one["last_seen"] = agent.last_seen_at_us == 0
                           ? Json(nullptr)
                           : Json(time_text({.seconds = agent.last_seen_at_us / 1'000'000, .nanoseconds = 0}));
    answer.text += fmt::format("{} ({})\n", agent.name, agent.status);
    list.push_back(std::move(one));
  }
  bool is_down = is_known_to_be_down(*opened);
  if (list.empty()) answer.text = "the relay knows no agents";
  if (is_down) answer.text += "\n(no relay is running)";
  answer.structured["agents"] = std::move(list);
  answer.structured["total"] = agents.size();
  answer.structured["is_running"] = !is_down;
  return answer;
}

Json optional_text(std::string_view description) {
  return {{"type", {"string", "null"}}, {"description", description}};
}

Json relay_send_input() {
  Json priority = whole_number_schema("0 (first) to 9; default 5", 0);
  priority["maximum"] = relay::kPriorityLowest;
  return object_schema({{"to", text_schema("an agent, \"*\" (all others), \"#channel\" or \"Lead\"")},
                        {"body", text_schema("the text")},
                        {"thread", text_schema("the conversation it belongs to")},
                        {"priority", std::move(priority)},
                        {"receipt", flag_schema("ask for receipts, which come to the inbox")},
                        {"queue", flag_schema("send it even if no relay is running now")}},
                       {"to", "body"});
}

Json relay_send_output() {
  return object_schema({{"id", text_schema("")}, {"is_queued", flag_schema("it waits for a relay to run")}},
                       {"id", "is_queued"});
}

Json relay_inbox_input() {
  return object_schema({{"limit", whole_number_schema("messages at most; default 50", 1)},
                        {"after", text_schema("next_after of the page before")}},
                       {});
}

Json relay_inbox_output() {
  Json texts = Json::object();
  for (const char* name : {"file", "id", "id_base64", "from", "from_base64", "kind", "kind_base64", "thread",
                           "thread_base64", "reference", "reference_base64", "body", "body_base64"}) {
    texts[name] = text_schema("");
  }
  texts["is_cut"] = flag_schema("the whole is in /ipc/inbox");
  Json message = object_schema(std::move(texts), {"file", "id", "from", "kind", "body", "is_cut"});
  Json unreadable = object_schema({{"file", text_schema("")}, {"why", text_schema("")}}, {"file", "why"});
  return object_schema({{"messages", list_schema("oldest first", std::move(message))},
                        {"unreadable", list_schema("", std::move(unreadable))},
                        {"total", whole_number_schema("in the inbox", 0)},
                        {"next_after", optional_text("null: this is the end")}},
                       {"messages", "unreadable", "total", "next_after"});
}

Json relay_ack_input() {
  return object_schema({{"message", text_schema("its file or id, from relay_inbox")},
                        {"refused_because", text_schema("tells the sender that it was not done, and why")}},
                       {"message"});
}

Json relay_ack_output() {
  return object_schema({{"file", text_schema("")},
                        {"id", text_schema("")},
                        {"id_base64", text_schema("")},
                        {"is_refused", flag_schema("")}},
                       {"file", "id", "is_refused"});
}

Json relay_agents_input() { return object_schema(Json::object(), {}); }

Json relay_agents_output() {
  Json agent = object_schema({{"name", text_schema("")},
                              {"name_base64", text_schema("")},
                              {"status", text_schema("active or inactive")},
                              {"is_self", flag_schema("")},
                              {"last_seen", optional_text("UTC")}},
                             {"name", "status", "is_self", "last_seen"});
  return object_schema({{"agents", list_schema("", std::move(agent))},
                        {"total", whole_number_schema("", 0)},
                        {"is_running", flag_schema("whether a relay runs now")}},
                       {"agents", "total", "is_running"});
}

}  // namespace

const Tool& relay_send_tool() {
  static constexpr Tool kTool{
      .name = "relay_send",
      .title = "Send a message",
      .group = "relay",
      .description =
          "Send a message to another agent, a channel or all agents; relay_agents lists who can be "
          "reached. Returns its id, once it is safe on disk. Example: {\"to\": \"reviewer\", \"body\": "
          "\"Please look at /src/a.c\"}",
      .hints = {},
      .input_schema = relay_send_input,
      .output_schema = relay_send_output,
      .call = [](ToolContext& context, const Json& arguments) { return mail_answer(send_answer(context, arguments)); },
      .need = ToolNeed::kRelay};
  return kTool;
}

const Tool& relay_inbox_tool() {
  static constexpr Tool kTool{
      .name = "relay_inbox",
      .title = "Read the inbox",
      .group = "relay",
      .description =
          "Read the messages that other agents have sent; they stay there until relay_ack. Returns sender, "
          "body and id of each, oldest first. Example: {\"limit\": 10}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = relay_inbox_input,
      .output_schema = relay_inbox_output,
      .call = [](ToolContext& context, const Json& arguments) { return mail_answer(inbox_answer(context, arguments)); },
      .need = ToolNeed::kRelay};
  return kTool;
}

const Tool& relay_ack_tool() {
  static constexpr Tool kTool{
      .name = "relay_ack",
      .title = "Acknowledge a message",
      .group = "relay",
      .description =
          "Tell the sender that a message was dealt with, or with refused_because that it was not, and "
          "take it out of the inbox. Use it once for each message of relay_inbox. Returns the id. Example: "
          "{\"message\": \"1763400000000000000-0123456789abcdef.msg\"}",
      .hints = {},
      .input_schema = relay_ack_input,
      .output_schema = relay_ack_output,
      .call = [](ToolContext& context, const Json& arguments) { return mail_answer(ack_answer(context, arguments)); },
      .need = ToolNeed::kRelay};
  return kTool;
}

const Tool& relay_agents_tool() {
  static constexpr Tool kTool{
      .name = "relay_agents",
      .title = "List agents",
      .group = "relay",
      .description =
          "List the agents that messages can be sent to, before relay_send. Returns their names, and "
          "whether they are active. Example: {}",
      .hints = {.is_read_only = true, .is_idempotent = true},
      .input_schema = relay_agents_input,
      .output_schema = relay_agents_output,
      .call = [](ToolContext& context, const Json&) { return mail_answer(agents_answer(context)); },
      .need = ToolNeed::kRelay};
  return kTool;
}

}  // namespace warren
