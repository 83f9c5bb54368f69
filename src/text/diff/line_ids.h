// Lines as numbers: equal lines have equal numbers. A diff compares these instead of bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace warren {

// The number of a line that the other side does not have. It does not equal anything, not even itself.
inline constexpr std::uint32_t kNoMatch = UINT32_MAX;

struct LineIds {
  std::vector<std::uint32_t> old_ids;
  std::vector<std::uint32_t> new_ids;
};

// O(n log n) for any lines: lines made to collide cost a sort, not a long chain. Both sides together must have fewer
// than 2^32 - 1 lines.
LineIds number_lines(std::string_view old_text, std::string_view new_text);

}  // namespace warren
