// The archive of processed messages, by day and sender.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/root/root.h"

namespace warren::relay {

struct ArchiveDay {
  std::string date;  // 2026-01-31, UTC
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

Result<std::vector<ArchiveDay>> list_archive(Root& root);

// Removes the files of days before `date`, except those that a delivery or a dead letter still needs. Returns how many.
Result<std::uint64_t> prune_archive(Root& root, Ledger& ledger, const std::string& date);

}  // namespace warren::relay
