// Checks that the ledger and the directories of a relay are consistent.
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

// For kYes the caller must hold the root's lock. Inbox files that are not in the ledger are reported, but never
// removed.
Result<FsckReport> fsck(Root& root, Ledger& ledger, Repair repair, Depth depth = Depth::kNames);

// The part of fsck() about attachments: those that a delivery needs exist and are unchanged since they were hashed, and
// unreferenced ones are removed at most a day late.
Status fsck_attachments(Root& root, Ledger& ledger, Repair repair, Depth depth, FsckReport& report);

}  // namespace warren::relay
