// The lines of a place that are shown with a result.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warren {

inline constexpr std::size_t kSnippetLines = 4;
inline constexpr std::size_t kSnippetLineBytes = 200;

struct Snippet {
  std::string text;      // lines without the last line end; what was left out of a long line is "…"
  std::size_t line = 0;  // of its first line, counted from 0 in the body
};

// Some lines around one, which is counted from 0. `at` is what to show of that line if it is long: an offset in the
// body.
Snippet snippet_of(std::string_view body, std::size_t line, std::size_t at = 0);

}  // namespace warren
