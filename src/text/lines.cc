#include "text/lines.h"

#include <algorithm>

namespace warren {

std::size_t count_lines(std::string_view text) {
  auto ends = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  return ends + (text.empty() || text.back() == '\n' ? 0 : 1);
}

std::string_view LineCursor::take_until(std::size_t line) {
  std::size_t start = at_;
  while (line_ < line && at_ < text_.size()) {
    std::size_t end = text_.find('\n', at_);
    at_ = end == text_.npos ? text_.size() : end + 1;
    ++line_;
  }
  return text_.substr(start, at_ - start);
}

}  // namespace warren
