// The names of the directories in a base in which an apply or undo prepares its work.
#pragma once

#include <string_view>

namespace warren {

inline constexpr std::string_view kStagingPrefix = ".warren-apply-";

}  // namespace warren
