#include "relay/delivery/inbox_repair.h"

#include <ctime>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kUnsyncedNs = 120'000'000'000;  // longer than any system delays writes to the disk
constexpr std::size_t kHashDigits = 16;

// Keyed by recipient and message: the name of an inbox file ends with a hash of the message's id.
std::string taken_key(std::string_view recipient, std::string_view file) {
  std::string_view stem = stem_of(file);
  return fmt::format("{} {}", recipient, stem.substr(stem.size() - std::min(stem.size(), kHashDigits)));
}

}  // namespace

Status InboxRepair::repair() {
  for (const auto& [name, agent] : router_.agents()) {
    if (router_.is_remote(agent)) continue;
    WARREN_TRY(repair_dir(name, "inbox", false));
    WARREN_TRY(repair_dir(name, "inbox/.done", true));
  }
  return Ok{};
}

Status InboxRepair::repair_dir(const std::string& agent, const std::string& path, bool is_done) {
  Result<Fd> dir = root_.open_agent_dir(agent, path);
  if (!dir.ok()) return Ok{};  // add_agents() makes it, or logs why it cannot
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir->get()));
  for (const HostEntry& entry : entries) {
    bool is_recent = timestamp_of(entry.name).value_or(0) > stamps_.newest_ns() - kUnsyncedNs;
    if (!is_message_file(entry.name) || !is_recent) continue;
    std::optional<Delivery> delivery = WARREN_TRY(ledger_.find_in_inbox(agent, entry.name));
    std::optional<MessageRow> known;
    if (delivery) known = WARREN_TRY(records_.find_message(delivery->message_id));
    std::uint64_t most = known ? records_.bytes_max_of(*known) : config_.message_bytes_max;
    Result<ReadFile> read = read_below(dir->get(), entry.name, most + kRelayHeaders * kHeaderBytes);
    Result<Message> message =
        read.ok() ? parse_message(read->content, kHeaderCount + kRelayHeaders) : Result<Message>(read.error());
    // Not torn: a higher limit may have allowed it.
    bool is_too_large = !read.ok() && read.error().code() == Code::kTooLarge;
    if (delivery) {
      if (!message.ok()) WARREN_TRY(repair_known(dir->get(), *delivery, is_done));
    } else if (is_done) {
      taken_.emplace(taken_key(agent, entry.name), entry.name);
    } else if (!is_too_large && (!message.ok() || will_come_again(entry.name, *message))) {
      log_.note(Severity::kWarning, "unrecorded_file_removed", {{"agent", agent}, {"file", entry.name}});
      ::unlinkat(dir->get(), entry.name.c_str(), 0);
    }
  }
  return Ok{};
}

// Its message is in an outbox still, or its sender has not finished sending it. If it is in the archive, then the
// ledger is not the one that knew it (a backup, say), and the file is all there is.
bool InboxRepair::will_come_again(std::string_view file, const Message& message) const {
  const std::string* id = message.find("ID");
  std::int64_t stamp_ns = timestamp_of(file).value_or(0);
  bool is_made_by_us = id != nullptr && inbox_name(*id, stamp_ns) == file;
  if (!is_made_by_us || id->starts_with(kOrchestrator)) return false;
  for (std::int64_t day : {-1, 0, 1}) {
    std::time_t then = stamp_ns / 1'000'000'000 + day * 86'400;
    std::string path = fmt::format("archive/{:%Y-%m-%d}/{}.msg", fmt::gmtime(then), *id);
    if (open_below(root_.dir(), path, O_PATH).ok()) return false;
  }
  return true;
}

Status InboxRepair::repair_known(int dir, const Delivery& delivery, bool is_done) {
  Result<Message> message = records_.load(delivery.message_id);
  std::string sender = delivery.message_id.substr(0, delivery.message_id.find('/'));
  if (message.ok()) return restore(dir, delivery, render(*message, sender, delivery.message_id));
  if (is_shortage(message.error())) return message.error();
  log_.note(Severity::kWarning, "torn_file",
            {{"agent", delivery.recipient}, {"file", delivery.inbox_name}, {"error", message.error().message()}});
  if (!is_done) ::unlinkat(dir, delivery.inbox_name.c_str(), 0);
  return Ok{};
}

Status InboxRepair::restore(int dir, const Delivery& delivery, std::string_view content) {
  WARREN_TRY(mailroom_.stage(delivery, content));
  WARREN_TRY(mailroom_.sync_staged());
  return mailroom_.publish_into(dir, delivery);
}

// The file may have lost its content. Even if it cannot be written, the message is not delivered again.
void InboxRepair::restore_taken(const Delivery& delivery, std::string_view content) {
  Result<Fd> done = root_.open_agent_dir(delivery.recipient, "inbox/.done");
  Status restored = done.ok() ? restore(done->get(), delivery, content) : Status(done.error());
  if (restored.ok()) return;
  log_.note(Severity::kWarning, "torn_file",
            {{"agent", delivery.recipient}, {"file", delivery.inbox_name}, {"error", restored.error().message()}});
}

// A message that was taken by its recipient before the cut is recorded as read, and not delivered again.
void InboxRepair::recognise(Outgoing& outgoing) {
  if (taken_.empty()) return;
  bool is_open = false;
  for (Delivery& delivery : outgoing.deliveries) {
    auto found = taken_.find(taken_key(delivery.recipient, delivery.inbox_name));
    if (found != taken_.end() && delivery.state == DeliveryState::kPending) {
      delivery.state = DeliveryState::kRead;
      delivery.inbox_name = found->second;
      taken_.erase(found);
      restore_taken(delivery, render(outgoing.message, outgoing.row.agent, outgoing.row.id));
    }
    is_open = is_open || delivery.state != DeliveryState::kRead;
  }
  if (!is_open) outgoing.row.status = "completed";
}

}  // namespace warren::relay
