#include "relay/upkeep/fsck.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "os/files/host_files.h"
#include "relay/delivery/mailroom.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::size_t kPage = 1024;

// Every file in an inbox must belong to a delivery that is recorded as delivered or about to be.
Status check_inbox(Root& root, Ledger& ledger, const std::string& agent, FsckReport& report) {
  Fd inbox = WARREN_TRY(root.open_inbox(agent));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(inbox.get()));
  for (const HostEntry& entry : entries) {
    if (!is_message_file(entry.name)) continue;
    std::optional<Delivery> delivery = WARREN_TRY(ledger.find_in_inbox(agent, entry.name));
    bool is_waiting =
        delivery && (delivery->state == DeliveryState::kStored || delivery->state == DeliveryState::kHeld);
    if (!delivery) report.problems.push_back(fmt::format("inbox of {}: {} is not in the ledger", agent, entry.name));
    if (is_waiting) report.problems.push_back(fmt::format("inbox of {}: {} is not delivered yet", agent, entry.name));
  }
  return Ok{};
}

bool is_there(Root& root, const std::string& path) { return open_below(root.dir(), path, O_PATH).ok(); }

// Waiting deliveries must have the file of their message.
Status check_waiting(Root& root, Ledger& ledger, const std::string& agent, DeliveryState state, FsckReport& report) {
  for (std::int64_t after = 0;;) {
    std::vector<Delivery> page = WARREN_TRY(ledger.in_state(agent, state, after, kPage));
    if (page.empty()) return Ok{};
    after = page.back().id;
    for (const Delivery& delivery : page) {
      std::optional<StoredMessage> message = WARREN_TRY(ledger.find_message(delivery.message_id));
      if (!message) {
        report.problems.push_back(fmt::format("a delivery has no message: {}", delivery.message_id));
        continue;
      }
      std::string file = message->message.path.substr(message->message.path.rfind('/') + 1);
      std::string outbox = fmt::format("agents/{}/outbox/{}", message->message.agent, file);
      bool is_found = is_there(root, message->message.path) || is_there(root, outbox) ||
                      is_there(root, message->message.path);  // it may have been moved meanwhile
      if (is_found) continue;
      if (ledger.homes() != nullptr && WARREN_TRY(ledger.homes()->find_body(delivery.message_id))) continue;
      report.problems.push_back(fmt::format("message {} has no file", delivery.message_id));
    }
  }
}

Status check_staged(Root& root, Ledger& ledger, Repair repair, FsckReport& report) {
  Mailroom mailroom(root);
  std::vector<std::string> staged = WARREN_TRY(mailroom.list_staged());
  for (const std::string& file : staged) {
    std::size_t end = file.find(".msg.");
    std::optional<Delivery> delivery;
    if (end != file.npos) delivery = WARREN_TRY(ledger.find_in_inbox(file.substr(end + 5), file.substr(0, end + 4)));
    if (delivery && delivery->state == DeliveryState::kPending) continue;
    report.problems.push_back(fmt::format("tmp/deliveries: {} has no pending delivery", file));
    if (repair == Repair::kNo) continue;
    mailroom.remove_staged(file);
    report.repaired.push_back(fmt::format("tmp/deliveries: {} removed", file));
  }
  return Ok{};
}

}  // namespace

Result<FsckReport> fsck(Root& root, Ledger& ledger, Repair repair, Depth depth) {
  FsckReport report;
  if (repair == Repair::kYes) WARREN_TRY(ledger.enter_all());
  report.problems = WARREN_TRY(ledger.check());
  bool must_update = !report.problems.empty() && repair == Repair::kYes;
  if (must_update) {
    auto transaction = WARREN_TRY(ledger.begin());
    WARREN_TRY(ledger.update_statuses());
    WARREN_TRY(transaction.commit());
    report.repaired.emplace_back("set message statuses from their deliveries");
  }
  std::vector<std::string> agents = WARREN_TRY(root.list_agents());
  for (const std::string& agent : agents) {
    WARREN_TRY(check_inbox(root, ledger, agent, report));
    WARREN_TRY(check_waiting(root, ledger, agent, DeliveryState::kStored, report));
  }
  WARREN_TRY(check_waiting(root, ledger, std::string(kLead), DeliveryState::kHeld, report));
  WARREN_TRY(check_staged(root, ledger, repair, report));
  WARREN_TRY(fsck_attachments(root, ledger, repair, depth, report));
  return report;
}

}  // namespace warren::relay
