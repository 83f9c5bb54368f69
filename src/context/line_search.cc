#include "context/line_search.h"

#include <utility>

namespace warren {
namespace {

constexpr std::size_t kBinaryLookBytes = 8192;

}  // namespace

bool is_binary_content(std::string_view beginning) {
  return beginning.substr(0, kBinaryLookBytes).find('\0') != beginning.npos;
}

LineSearch::LineSearch(const Pattern& pattern, Lines wanted, Visitor visit)
    : pattern_(pattern), wanted_(wanted), visit_(std::move(visit)) {}

LineSearch::Next LineSearch::take(std::string_view piece) {
  while (next_ == Next::kContinue && !piece.empty()) {
    std::size_t end = piece.find('\n');
    std::string_view part = piece.substr(0, end);
    bool is_whole = end != piece.npos;
    piece.remove_prefix(is_whole ? end + 1 : piece.size());
    if (is_whole && begun_.empty()) {
      look_at(part);
    } else {
      begun_ += part;
      if (!is_whole && begun_.size() < kLineBytes) break;
      look_at(begun_);
      begun_.clear();
    }
    if (is_whole) ++number_;
  }
  return next_;
}

LineSearch::Next LineSearch::finish() {
  if (next_ == Next::kContinue && !begun_.empty()) look_at(begun_);
  begun_.clear();
  return next_;
}

void LineSearch::look_at(std::string_view line) {
  bool is_wanted = pattern_.find(line).has_value() == (wanted_ == Lines::kWithMatch);
  if (is_wanted) next_ = visit_({.number = number_, .text = line});
}

}  // namespace warren
