// Patterns on command lines that cannot mean what they say.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "base/path.h"
#include "base/result.h"
#include "text/glob_check.h"

namespace warren::cli {

enum class Backslash { kEscapes, kPlain };

// Where a backslash is a character like any other.
inline bool has_unclosed_plain_class(std::string_view pattern) {
  for (std::size_t at = pattern.find('['); at != pattern.npos; at = pattern.find('[', at + 1)) {
    std::size_t first = at + 1;
    if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
    at = pattern.find_first_of("]/", first + 1);
    bool is_closed = first < pattern.size() && pattern[first] != '/' && at != pattern.npos && pattern[at] == ']';
    if (!is_closed) return true;
  }
  return false;
}

// kInvalid for a '[' that is not closed within its component: it would match only itself, which nobody means.
inline Status check_brackets(std::string_view pattern, Backslash backslash) {
  bool escapes = backslash == Backslash::kEscapes;
  if (!(escapes ? has_unclosed_class(pattern) : has_unclosed_plain_class(pattern))) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a valid pattern: '[' is not closed", quote(pattern)),
               escapes ? "write '\\[' or '[[]' for the character itself" : "write '[[]' for the character itself");
}

}  // namespace warren::cli
