// Lines of a byte string: each ends behind its '\n', the last one perhaps without. A '\r' is a byte like any
// other, and so is NUL. "" has no lines, "a" and "a\n" have one each, and these two differ.
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

// Walks forward over a text by line numbers. Needs no memory, however many lines there are; each byte is
// looked at once. The text must outlive what is taken.
class LineCursor {
 public:
  explicit LineCursor(std::string_view text) : text_(text) {}

  std::size_t line() const { return line_; }
  // What lies between here and the start of line `line`, or the end of the text; the cursor stands there
  // afterwards. Nothing if the cursor is past it.
  std::string_view take_until(std::size_t line);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;
};

}  // namespace warren
