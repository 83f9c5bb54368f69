// Guesses which word was meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace warren {

// The word in `known` that `typed` is probably a misspelling of; empty if there is none, or it is a number.
std::string nearest(std::string_view typed, const std::vector<std::string_view>& known);

}  // namespace warren
