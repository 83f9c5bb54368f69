// Attachments in send and inbox, and the commands for the relay's store.
#include <fmt/format.h>

#include "base/format_size.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"
#include "relay/protocol/attachment.h"

namespace warren::cli {

Status attach_files(relay::Client& client, const std::vector<std::string>& files, relay::Message& message) {
  if (files.size() > relay::kAttachmentCount) {
    return Error(Code::kInvalid, fmt::format("a message can have at most {} attachments", relay::kAttachmentCount));
  }
  for (const std::string& file : files) {
    relay::Attachment attachment = WARREN_TRY(client.attach_path(file));
    message.others.push_back({std::string(relay::kAttachmentHeader), write_attachment(attachment)});
  }
  return Ok{};
}

// The relay checks as well. Checking here gives the sender an immediate error, with a hint. Not all agents can see the
// limit.
Status check_message_size(const relay::Root& root, const relay::Message& message) {
  if (!root.has_attachments()) return Ok{};
  Result<relay::Config> config = root.read_config();
  std::uint64_t most = config.ok() ? config->message_bytes_max : relay::Config().message_bytes_max;
  std::size_t size = write_message(message).size();
  if (size <= most) return Ok{};
  return Error(Code::kTooLarge,
               fmt::format("the message has {}; the limit of this relay is {}", format_size(size), format_size(most)),
               "send the large part as a file with '--attach FILE'");
}

Result<Json> save_attachments(relay::Client& client, const relay::Message& message, const std::string& dir) {
  std::vector<relay::Attachment> attachments = WARREN_TRY(relay::attachments_of(message));
  Json list = Json::array();
  if (attachments.empty()) return list;
  Fd into;
  if (!dir.empty()) {
    WARREN_TRY(make_host_dirs(dir, 0777));
    into = WARREN_TRY(open_host_dir(dir));
  }
  for (const relay::Attachment& attachment : attachments) {
    Json one = {{"hash", relay::reference_of(attachment.hash)}};
    if (!attachment.name.empty()) set_bytes(one, "name", attachment.name);
    if (into.is_open()) {
      std::string name = WARREN_TRY(client.save(attachment, into.get()));
      set_bytes(one, "saved", name);
    }
    list.push_back(std::move(one));
  }
  return list;
}

namespace {

constexpr int kPrefixes = 256;

Result<Exit> run_list(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  Json list = Json::array();
  for (int prefix = 0; prefix < kPrefixes; ++prefix) {
    auto rows = WARREN_TRY(ledger->list_attachments(fmt::format("{:02x}", prefix)));
    for (const relay::AttachmentRow& row : rows) {
      if (args.has("json")) {
        list.push_back({{"hash", relay::reference_of(row.hash)},
                        {"bytes", row.identity.size},
                        {"verified", row.is_verified},
                        {"needed", row.is_referenced}});
        bool is_idle = !row.is_referenced && row.unreferenced_since_us != 0;
        if (is_idle) list.back()["unreferenced_since_us"] = row.unreferenced_since_us;
      } else {
        context.out.print("{} {} {}\n", relay::reference_of(row.hash), context.out.size(row.identity.size),
                          row.is_referenced ? "needed" : "not needed");
      }
    }
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

Result<Exit> run_collect(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  if (!root->is_locked_by_other()) {
    return Error(Code::kUnavailable, fmt::format("no relay is running at {}", quote(root->path())),
                 "a relay collects by itself once it runs");
  }
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRequest));
  auto transaction = WARREN_TRY(ledger->begin());
  WARREN_TRY(ledger->request("collect", dump_json({{"all", args.has("all")}})));
  WARREN_TRY(transaction.commit());
  WARREN_TRY(root->poke());
  return Exit::kOk;
}

}  // namespace

std::vector<Command> make_relay_attachments() {
  Command list{.name = "list",
               .summary = "List attachments in the relay's store",
               .details = "",
               .options = {json_option()},
               .handler = run_list};
  Command collect{.name = "collect",
                  .summary = "Ask the relay to remove unneeded attachments now",
                  .details = "The relay does so by itself an hour after the last message with the attachment was read.",
                  .options = {{.name = "all",
                               .help = "do not wait for an hour: also remove files attached just now "
                                       "and not sent yet"}},
                  .handler = run_collect};
  return {{.name = "attachments",
           .summary = "List and remove files attached to messages",
           .details = "",
           .subcommands = {list, collect}}};
}

}  // namespace warren::cli
