// The shortest way from one sequence of numbers to another, as far as a bounded effort finds it.
//
// Myers' algorithm from both ends at once ("An O(ND) Difference Algorithm", 1986), in linear space. Always
// a correct script; not always the shortest one, see docs/design/text.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace warren {

struct EditEffort {
  std::uint64_t steps;  // for all; then what remains is changed as a whole
  int cost;             // edits tried in one stretch before it is cut where it stands
};

// True for each element that is taken out (of the old) or put in (to the new). The others are equal, one by
// one, in order.
struct EditMarks {
  std::vector<bool> removed;
  std::vector<bool> added;
};

EditMarks find_edits(std::span<const std::uint32_t> old_ids, std::span<const std::uint32_t> new_ids, EditEffort effort);

}  // namespace warren
