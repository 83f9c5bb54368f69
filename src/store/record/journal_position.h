// How far derived data outside the agent file follows it, across processes: a position in the journal.
//
// A process that finds an older position learns from the journal what changed since. It can trust that only if every
// commit since then has a row there, which the numbers of commits tell (Database::number_commits). Otherwise, as after
// a commit by another program, everything may have changed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "store/record/journal.h"
#include "store/store.h"

namespace warren {

struct JournalPosition {
  std::int64_t seq = 0;            // of the newest row
  std::int64_t commit_number = 0;  // of the newest commit

  bool operator==(const JournalPosition&) const = default;
};

struct ChangesSince {
  // Oldest first. nullopt: everything may have changed.
  std::optional<std::vector<Change>> changes;
  // Of what was looked at; changes after it are found from there. nullopt: unknown.
  std::optional<JournalPosition> position;
};

// Ends the open batch of the store. Not within a transaction.
Result<ChangesSince> read_changes_since(Store& store, const std::optional<JournalPosition>& position);

}  // namespace warren
