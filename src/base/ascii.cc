#include "base/ascii.h"

#include <algorithm>

namespace warren {

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return to_lower(c); });
  return out;
}

std::string_view trimmed(std::string_view text, std::string_view dropped) {
  std::size_t begin = std::min(text.find_first_not_of(dropped), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(dropped) + 1);
}

}  // namespace warren
