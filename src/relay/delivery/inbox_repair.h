// Repairs inboxes after a power cut: files that were never synced may have lost their content, and the directories may
// have later changes than the ledger.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "relay/context.h"
#include "relay/delivery/mailroom.h"
#include "relay/delivery/records.h"
#include "relay/delivery/stamps.h"
#include "relay/plan.h"

namespace warren::relay {

// One thread.
class InboxRepair {
 public:
  InboxRepair(const Context& all, Records& records, Mailroom& mailroom, const Stamps& stamps)
      : root_(all.root),
        config_(all.config),
        log_(all.log),
        router_(all.router),
        ledger_(all.ledger),
        records_(records),
        mailroom_(mailroom),
        stamps_(stamps) {}

  Status repair();
  // For a message that is taken again.
  void recognise(Outgoing& outgoing);

 private:
  Status repair_dir(const std::string& agent, const std::string& path, bool is_done);
  Status repair_known(int dir, const Delivery& delivery, bool is_done);
  Status restore(int dir, const Delivery& delivery, std::string_view content);
  void restore_taken(const Delivery& delivery, std::string_view content);
  bool will_come_again(std::string_view file, const Message& message) const;

  Root& root_;
  const Config& config_;
  Log& log_;
  const Router& router_;
  Ledger& ledger_;
  Records& records_;
  Mailroom& mailroom_;
  const Stamps& stamps_;
  std::map<std::string, std::string> taken_;  // files in .done that the ledger does not know
};

}  // namespace warren::relay
