// Moves senders' files from their outboxes to the archive, in the thread that syncs the ledger.
#pragma once

#include <vector>

#include "relay/delivery/mailroom.h"
#include "relay/ledger/ledger_syncer.h"
#include "relay/root/log.h"
#include "relay/root/root.h"

namespace warren::relay {

// One thread.
class Archivist {
 public:
  Archivist(Root& root, Log& log) : log_(log), mailroom_(root) {}

  std::vector<Filing> file(std::vector<Filing> filings);  // returns those to try again

 private:
  Log& log_;
  Mailroom mailroom_;
};

}  // namespace warren::relay
