#include "relay/delivery/records.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"
#include "crypto/digest.h"
#include "relay/protocol/names.h"

namespace warren::relay {

Result<std::optional<MessageRow>> Records::find_message(std::string_view id) {
  if (const Arrival* arrival = arrivals_.find_message(id)) return std::optional(arrival->message);
  std::optional<StoredMessage> found = WARREN_TRY(ledger_.find_message(id));
  return found ? std::optional(std::move(found->message)) : std::nullopt;
}

Result<std::optional<Delivery>> Records::find_in_inbox(std::string_view recipient, std::string_view inbox_name) {
  if (const Arrival* arrival = arrivals_.find_in_inbox(recipient, inbox_name)) return std::optional(arrival->delivery);
  return ledger_.find_in_inbox(recipient, inbox_name);
}

Result<std::optional<Delivery>> Records::find_to(std::string_view message_id, std::string_view recipient) {
  const Arrival* arrival = arrivals_.find_message(message_id);
  bool is_it = arrival != nullptr && arrival->delivery.recipient == recipient;
  return is_it ? std::optional(arrival->delivery) : ledger_.find_to(message_id, recipient);
}

Result<Message> Records::load(std::string_view message_id) {
  std::optional<MessageRow> stored = WARREN_TRY(find_message(message_id));
  if (!stored) return Error(Code::kNotFound, "file_disappeared");
  std::string name(split_parent(stored->path).name);
  std::string outbox = fmt::format("agents/{}/outbox/{}", stored->agent, name);
  Result<ReadFile> file = Error(Code::kNotFound, "");
  for (const std::string& path : {stored->path, outbox, stored->path}) {  // it may be moved between two tries
    if (!file.ok() && file.error().code() == Code::kNotFound) {
      file = read_below(root_.dir(), path, bytes_max_of(*stored));
    }
  }
  if (!file.ok() && is_shortage(file.error())) return file.error();
  if (!file.ok() && ledger_.homes() != nullptr) {  // it came through another home
    std::optional<std::string> body = WARREN_TRY(ledger_.homes()->find_body(message_id));
    if (body) return parse_message(*body, kHeaderCount + kRelayHeaders);
  }
  if (!file.ok()) return Error(Code::kNotFound, fmt::format("file_disappeared: {}", file.error().message()));
  if (sha256_hex(as_bytes(file->content)) != stored->checksum) {
    return Error(Code::kCorrupt, "the file was changed after it was accepted");
  }
  return parse_message(file->content);
}

// The limit may have been lowered since the message was taken.
std::uint64_t Records::bytes_max_of(const MessageRow& known) const {
  return std::max(known.size, config_.message_bytes_max);
}

void Records::expect(const std::vector<Candidate>& candidates) {
  if (ledger_.homes() == nullptr) return;
  std::vector<std::string> ids;
  for (const Candidate& one : candidates) ids.push_back(make_message_id(one.agent, stem_of(one.file)));
  ledger_.expect_messages(ids);
}

void Records::expect(const std::vector<LeftInbox>& left, std::size_t count) {
  if (ledger_.homes() == nullptr) return;
  std::vector<std::pair<std::string, std::string>> files;
  for (std::size_t i = 0; i < count; ++i) files.emplace_back(left[i].agent, left[i].file);
  ledger_.expect_in_inboxes(files);
}

}  // namespace warren::relay
