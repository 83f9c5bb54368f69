// Whether a path is a directory's or below it, as text.
#pragma once

#include <string_view>

namespace warren {

// Both normalised; everything is below "/".
constexpr bool is_at_or_below(std::string_view path, std::string_view dir) {
  if (dir == "/") return true;
  return path.starts_with(dir) && (path.size() == dir.size() || path[dir.size()] == '/');
}

}  // namespace warren
