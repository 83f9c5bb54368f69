// Whether the ledger and the directories of a relay agree.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/root/root.h"

namespace warren::relay {

struct FsckReport {
  std::vector<std::string> problems;
  std::vector<std::string> repaired;
};

enum class Repair { kNo, kYes };
enum class Depth { kNames, kContent };  // whether attachments are hashed

// With kYes nobody else may serve the root: the caller holds its lock. Files of inboxes that the ledger does not know
// are reported and left where they are.
Result<FsckReport> fsck(Root& root, Ledger& ledger, Repair repair, Depth depth = Depth::kNames);

// Its part about attachments: those that a delivery needs are there and are what they were when they were hashed, and
// nothing that nobody needs was kept for a day longer than it had to be.
Status fsck_attachments(Root& root, Ledger& ledger, Repair repair, Depth depth, FsckReport& report);

}  // namespace warren::relay
