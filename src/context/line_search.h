// The lines in which a pattern is found, as grep finds them: for the tool, the command line and every other door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "context/pattern.h"

namespace warren {

// A NUL in the first bytes: the content is not text, as for grep. `beginning` may be all of it.
bool is_binary_content(std::string_view beginning);

enum class Lines { kWithMatch, kWithoutMatch };

// Takes a text in pieces, so that a large file needs little memory. For one thread. The pattern outlives it.
class LineSearch {
 public:
  enum class Next { kContinue, kStop };
  struct Line {
    std::uint64_t number = 0;  // from 1
    std::string_view text;     // without its line end; valid during the call
  };
  using Visitor = std::function<Next(const Line&)>;

  LineSearch(const Pattern& pattern, Lines wanted, Visitor visit);

  // Calls the visitor for the wanted lines that are complete. After kStop nothing more happens. A line above
  // kLineBytes is searched in parts, with the same number.
  Next take(std::string_view piece);
  Next finish();  // the last line, if it has no line end

  static constexpr std::size_t kLineBytes = std::size_t{16} << 20;

 private:
  void look_at(std::string_view line);

  const Pattern& pattern_;
  Lines wanted_;
  Visitor visit_;
  std::string begun_;  // a line that has not ended
  std::uint64_t number_ = 1;
  Next next_ = Next::kContinue;
};

}  // namespace warren
