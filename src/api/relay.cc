#include <warren/v1/relay.h>

#include <cstdlib>
#include <utility>

#include <fcntl.h>

#include <fmt/format.h>

#include "agent/relay_root.h"
#include "base/clock.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "relay/client/client.h"
#include "relay/ledger/open_ledger.h"
#include "relay/protocol/names.h"
#include "relay/root/registered.h"

namespace warren::v1 {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string token_of(const RelayOptions& options) {
  if (!options.token.empty()) return options.token;
  return variable("AGENT_RELAY_NAME") == options.agent ? variable("AGENT_RELAY_TOKEN") : "";
}

relay::Message internal_of(const RelayMessage& message) {
  relay::Message out{.to = message.to, .kind = message.kind, .thread = message.thread};
  out.priority = message.priority;
  out.wants_receipt = message.wants_receipt;
  out.reference = message.reference;
  out.body = message.body;
  for (const RelayHeader& header : message.headers) out.others.push_back({header.name, header.value});
  for (const RelayAttachment& one : message.attachments) {
    out.others.push_back({std::string(relay::kAttachmentHeader), relay::write_attachment({one.hash, one.name})});
  }
  return out;
}

Result<RelayMail> public_of(relay::Received received) {
  RelayMail out{.file = std::move(received.file), .id = std::move(received.id), .from = std::move(received.sender)};
  out.delivered_at_us = relay::timestamp_of(out.file).value_or(0) / 1000;
  relay::Message& message = received.message;
  std::vector<relay::Attachment> attachments = WARREN_TRY(relay::attachments_of(message));
  for (relay::Attachment& one : attachments) {
    out.message.attachments.push_back({std::move(one.hash), std::move(one.name)});
  }
  for (relay::Header& header : message.others) {
    bool is_shown = relay::is_same_header(header.name, "FROM") || relay::is_same_header(header.name, "ID") ||
                    relay::is_same_header(header.name, relay::kAttachmentHeader);
    if (!is_shown) out.message.headers.push_back({std::move(header.name), std::move(header.value)});
  }
  out.message.to = std::move(message.to);
  out.message.kind = std::move(message.kind);
  out.message.thread = std::move(message.thread);
  out.message.priority = message.priority;
  out.message.wants_receipt = message.wants_receipt;
  out.message.reference = std::move(message.reference);
  out.message.body = std::move(message.body);
  return out;
}

// A name in the inbox, and never a path.
Status check_inbox_file(const std::string& file) {
  if (relay::is_message_file(file)) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not the name of a message in an inbox", quote(file)));
}

}  // namespace

struct RelayClient::State {
  SystemClock clock;
  std::unique_ptr<relay::Root> root;
  std::unique_ptr<relay::Client> client;
};

RelayClient::RelayClient(std::unique_ptr<State> state) : state_(std::move(state)) {}

RelayClient::~RelayClient() = default;

Result<std::unique_ptr<RelayClient>> RelayClient::open(const RelayOptions& options) {
  auto state = std::make_unique<State>();
  std::string path = WARREN_TRY(find_relay_root(options.root, variable("WARREN_RELAY_ROOT")));
  state->root = WARREN_TRY(relay::Root::open_for_agent(path));
  if (options.registers == Register::kNo)
    WARREN_TRY(relay::check_is_registered(*state->root, options.agent, "RelayOptions::registers registers it"));
  state->client = WARREN_TRY(relay::Client::open(*state->root, options.agent, state->clock));
  state->client->use_token(token_of(options));
  return std::unique_ptr<RelayClient>(new RelayClient(std::move(state)));
}

Result<std::string> RelayClient::send(const RelayMessage& message) {
  return state_->client->send(internal_of(message));
}

Result<RelayAttachment> RelayClient::attach(const std::string& path) {
  relay::Attachment attached = WARREN_TRY(state_->client->attach_path(path));
  return RelayAttachment{.hash = std::move(attached.hash), .name = std::move(attached.name)};
}

Result<std::vector<std::string>> RelayClient::list_inbox() { return state_->client->list_inbox(); }

Result<RelayMail> RelayClient::read(const std::string& file) {
  WARREN_TRY(check_inbox_file(file));
  relay::Received received = WARREN_TRY(state_->client->read(file));
  return public_of(std::move(received));
}

Result<bool> RelayClient::wait_for_mail(std::chrono::milliseconds timeout, std::string_view after) {
  return state_->client->wait_for_mail(timeout, after);
}

Result<std::string> RelayClient::save(const RelayAttachment& attachment, const std::string& dir) {
  Fd into = WARREN_TRY(open_host_dir(dir));
  return state_->client->save({attachment.hash, attachment.name}, into.get());
}

Status RelayClient::take(const std::string& file) {
  WARREN_TRY(check_inbox_file(file));
  return state_->client->take(file);
}

Status RelayClient::acknowledge(std::string_view reference) { return state_->client->acknowledge(reference); }

Status RelayClient::refuse(std::string_view reference, std::string_view why) {
  return state_->client->refuse(reference, why);
}

Result<std::vector<RelayDelivery>> RelayClient::deliveries(const std::string& id) {
  if (!state_->root->has_attachments()) {
    return Error(Code::kDenied, "the relay's ledger is not visible here",
                 "send with wants_receipt, and read the receipts in the inbox");
  }
  auto ledger = WARREN_TRY(relay::open_ledger_of_relay(*state_->root, relay::LedgerUse::kRead, state_->clock));
  std::optional<relay::StoredMessage> found = WARREN_TRY(ledger->find_message(id));
  if (!found) return Error(Code::kNotFound, fmt::format("the relay has no message {} yet", quote(id)));
  std::vector<relay::Delivery> all = WARREN_TRY(ledger->list_deliveries(id));
  std::vector<RelayDelivery> out;
  for (relay::Delivery& one : all) {
    out.push_back({.recipient = std::move(one.recipient),
                   .state = std::string(relay::name_of(one.state)),
                   .error = std::move(one.error)});
  }
  return out;
}

}  // namespace warren::v1
