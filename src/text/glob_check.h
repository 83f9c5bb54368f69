// Patterns that cannot mean what they seem to (text/glob.h).
#pragma once

#include <string_view>

namespace warren {

// Whether a '[' in it is not closed within its component: it matches only itself, which nobody means.
bool has_unclosed_class(std::string_view pattern);

}  // namespace warren
