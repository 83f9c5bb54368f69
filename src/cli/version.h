// What `warren --version` says; tests/cli compares it with the build's.
#pragma once

#include <string_view>

namespace warren::cli {

inline constexpr std::string_view kVersion = "0.1.0";
inline constexpr std::string_view kAgentFsVersion = "0.6.4";  // the AgentFS whose command line we answer

}  // namespace warren::cli
