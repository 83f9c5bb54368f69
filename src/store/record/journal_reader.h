// What changed in an agent since a reader last looked: for data that is derived from it, such as an index.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "store/record/journal.h"
#include "store/store.h"

namespace warren {

// For one thread at a time. The store outlives it.
class JournalReader {
 public:
  explicit JournalReader(Store& store) : store_(store) {}

  // Changes by anybody, this store included, since the last call. nullopt: everything may have changed, as at the first
  // call and after a commit of another process. Call in a transaction; while changes of this store are not committed,
  // the answer is always that.
  Result<std::optional<std::vector<Change>>> read();

  // The next call says that everything may have changed, since what the last one returned could not be used.
  void start_over() { seen_epoch_.reset(); }

 private:
  Store& store_;
  std::optional<std::uint64_t> seen_epoch_;
  std::uint64_t seen_rollbacks_ = 0;
  std::int64_t seen_seq_ = 0;
};

}  // namespace warren
