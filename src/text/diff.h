// What must change in one text, line by line, to make it another.
//
// Pure functions over bytes: any content will do, lines as in text/lines.h. The time is bounded by
// limits::kDiffSteps and memory by limits::kDiffLines; beyond these a script is still correct, but may take
// out and put back lines that could have stayed. How it works: docs/design/text.md.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "text/lines.h"

namespace warren {

// The lines `before` of the old text become the lines `after` of the new one. Either may be empty, not both.
struct Hunk {
  LineRange before;
  LineRange after;

  bool operator==(const Hunk&) const = default;
};

// In order; between two hunks there is at least one line that stays. Empty if the texts are equal.
std::vector<Hunk> diff_lines(std::string_view old_text, std::string_view new_text);

struct LineCounts {
  std::size_t added = 0;
  std::size_t deleted = 0;

  bool operator==(const LineCounts&) const = default;
};
LineCounts count_changes(const std::vector<Hunk>& hunks);

// How much of the larger text the lines that stay make up, in percent of its bytes. 100 for equal texts only.
int similarity_percent(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks);

}  // namespace warren
