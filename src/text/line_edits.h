// Edits of a text by line numbers, all of them or none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

// Lines start_line to end_line (from 1, inclusive) are replaced by `content`; an empty one deletes them. With end_line
// 0, `content` is inserted before start_line, which may be one more than there are lines.
struct LineEdit {
  std::size_t start_line = 1;
  std::size_t end_line = 0;
  std::string_view content;
};

struct LineEditProblem {
  enum class Kind { kOutOfRange, kOverlap, kEmpty };
  Kind kind = Kind::kOutOfRange;
  std::size_t edit = 0;   // index of the edit concerned
  std::size_t other = 0;  // of the one that it overlaps
};

struct LineEditResult {
  std::string text;                        // the new text, if there is no problem
  std::optional<LineEditProblem> problem;  // of the first edit that has one, in the order given
};

// Line numbers are those of the text as it is now, for every edit. Edits must not overlap; several insertions at one
// line keep their order. New lines end as most lines of the text do ("\n" or "\r\n"), and the text has a newline at its
// end afterwards exactly if it had one before; one that was or becomes empty is taken as the edits make it.
LineEditResult edit_lines(std::string_view text, const std::vector<LineEdit>& edits);

}  // namespace warren
