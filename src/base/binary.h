// Whether content is text, which can be shown and merged line by line, or binary.
#pragma once

#include <string_view>

namespace warren {

// Git's rule, so that git, patches and Warren agree: a NUL among the first 8,000 bytes.
bool is_binary(std::string_view content);

}  // namespace warren
