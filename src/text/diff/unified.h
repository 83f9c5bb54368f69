// A diff as text in the "unified" format, for people, `patch` and `git apply`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/diff/diff.h"

namespace warren {

struct UnifiedOptions {
  std::size_t context = 3;  // unchanged lines shown around each change
};

// The part from the first "@@" on, without file names; "" if there are no hunks. Line content is copied as it is: a
// caller that prints it to a terminal must make it printable. `hunks` come from diff_lines.
std::string unified_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks,
                          UnifiedOptions options = {});

}  // namespace warren
