// The version that `warren --version` prints; tests/cli compares it with the build's.
#pragma once

#include <string_view>

namespace warren::cli {

inline constexpr std::string_view kVersion = "0.1.0";
inline constexpr std::string_view kAgentFsVersion = "0.6.4";  // the AgentFS release whose command line we implement

}  // namespace warren::cli
