// Whether content is text that can be shown and merged by lines.
#pragma once

#include <string_view>

namespace warren {

// git's rule: a NUL among the first 8,000 bytes. So git, patches and we call the same files binary.
bool is_binary(std::string_view content);

}  // namespace warren
