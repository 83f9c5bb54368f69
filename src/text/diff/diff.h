// The line changes that turn one text into another.
//
// Pure functions over bytes: any content is valid; lines as in text/lines.h. Time is bounded by limits::kDiffSteps and
// memory by limits::kDiffLines; beyond these a script is still correct, but may remove and re-add lines that could have
// stayed. How it works: docs/design/text.md.
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

// The bytes in unchanged lines, as a percentage of the larger text. 100 only for equal texts.
int similarity_percent(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks);

}  // namespace warren
