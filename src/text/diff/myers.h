// The shortest edit script between two sequences of numbers, as far as a bounded effort finds it.
//
// Myers' algorithm from both ends at once ("An O(ND) Difference Algorithm", 1986), in linear space. The script is
// always correct but not always the shortest, see docs/design/text.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace warren {

struct EditEffort {
  std::uint64_t steps;  // in total; the rest then becomes one change
  int cost;             // edits tried in one stretch before it is split at the search's position
};

// True for each element that is removed (from the old) or added (to the new). The others are pairwise equal, in order.
struct EditMarks {
  std::vector<bool> removed;
  std::vector<bool> added;
};

EditMarks find_edits(std::span<const std::uint32_t> old_ids, std::span<const std::uint32_t> new_ids, EditEffort effort);

}  // namespace warren
