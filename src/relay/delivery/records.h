// Finds messages and deliveries that were recorded: in the ledger, or among the arrivals that are not entered yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "relay/context.h"
#include "relay/delivery/arrivals.h"
#include "relay/delivery/watcher.h"
#include "relay/protocol/message.h"

namespace warren::relay {

// One thread.
class Records {
 public:
  Records(const Context& all, const Arrivals& arrivals)
      : root_(all.root), config_(all.config), ledger_(all.ledger), arrivals_(arrivals) {}

  Result<std::optional<MessageRow>> find_message(std::string_view id);
  Result<std::optional<Delivery>> find_in_inbox(std::string_view recipient, std::string_view inbox_name);
  Result<std::optional<Delivery>> find_to(std::string_view message_id, std::string_view recipient);

  // Reads the message from the archive, its outbox, or the shared ledger. kNotFound, kCorrupt.
  Result<Message> load(std::string_view message_id);
  std::uint64_t bytes_max_of(const MessageRow& known) const;  // how large its file may be

  // The next calls ask for these: a shared ledger answers all of them at once.
  void expect(const std::vector<Candidate>& candidates);
  void expect(const std::vector<LeftInbox>& left, std::size_t count);

 private:
  Root& root_;
  const Config& config_;
  Ledger& ledger_;
  const Arrivals& arrivals_;
};

}  // namespace warren::relay
