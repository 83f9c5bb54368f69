// A diff as text that people read and `patch` and `git apply` take: the "unified" form.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/diff.h"

namespace warren {

struct UnifiedOptions {
  std::size_t context = 3;  // lines that stay, shown around each change
};

// The part from the first "@@" on, without names of files; "" if there are no hunks. The content of lines
// goes out as it is: whoever prints it to a terminal makes it printable. `hunks` are those of diff_lines.
std::string unified_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks,
                          UnifiedOptions options = {});

}  // namespace warren
