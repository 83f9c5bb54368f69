// Patterns on command lines that cannot mean what they say.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "base/path.h"
#include "base/result.h"

namespace warren::cli {

enum class Backslash { kEscapes, kPlain };

// kInvalid for a '[' that is not closed within its component: it would match only itself, which nobody means.
inline Status check_brackets(std::string_view pattern, Backslash backslash) {
  bool escapes = backslash == Backslash::kEscapes;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (escapes && pattern[at] == '\\') ++at;
    else if (pattern[at] == '[') {
      std::size_t first = at + 1;
      if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
      std::size_t end = pattern.find_first_of("]/", first + 1);
      bool is_closed = first < pattern.size() && pattern[first] != '/' && end != pattern.npos && pattern[end] == ']';
      if (!is_closed) {
        return Error(
            Code::kInvalid, fmt::format("{} is not a valid pattern: '[' is not closed", quote(pattern)),
            escapes ? "write '\\[' or '[[]' for the character itself" : "write '[[]' for the character itself");
      }
      at = end;
    }
  }
  return Ok{};
}

}  // namespace warren::cli
