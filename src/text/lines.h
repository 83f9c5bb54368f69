// Lines of a byte string: each ends with its '\n', which the last line may lack. '\r' and NUL are ordinary bytes. ""
// has no lines; "a" and "a\n" have one each, and these two differ.
#pragma once

#include <cstddef>
#include <string_view>

namespace warren {

struct LineRange {
  std::size_t begin = 0;  // counted from 0
  std::size_t count = 0;

  std::size_t end() const { return begin + count; }
  bool operator==(const LineRange&) const = default;
};

std::size_t count_lines(std::string_view text);

// Walks forward over a text by line number. Uses no memory, however many lines there are, and reads each byte once. The
// text must outlive the returned views.
class LineCursor {
 public:
  explicit LineCursor(std::string_view text) : text_(text) {}

  std::size_t line() const { return line_; }
  // Returns the text from the cursor to the start of line `line`, or to the end of the text, and moves the cursor
  // there. Empty if the cursor is past it.
  std::string_view take_until(std::size_t line);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;
};

}  // namespace warren
