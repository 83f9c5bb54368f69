// A part of the difference between two texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/diff/diff.h"

namespace warren {

// The old text with only the hunks that are taken. `hunks` come from diff_lines; `is_taken` has one entry for each. All
// of them give the new text, none the old one.
std::string pick_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks,
                       const std::vector<bool>& is_taken);

}  // namespace warren
