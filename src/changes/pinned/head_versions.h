// The files that differ between the HEAD of a session and that of its base, in the version of the session's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/pinned/pinned_git.h"

namespace warren {

namespace limits {
inline constexpr std::size_t kFrozenPaths = 20'000;
inline constexpr std::uint64_t kFrozenBytes = std::uint64_t{256} << 20;
inline constexpr std::chrono::milliseconds kFreezeTime = std::chrono::minutes{1};  // one command of git
}  // namespace limits

// What the session's HEAD has under a path; an empty mode if it has nothing.
struct HeadVersion {
  std::string mode;
  std::string id;
  std::string now_id;       // of what the base's HEAD has there; "" for nothing
  std::uint64_t bytes = 0;  // without content filters

  bool is_file() const { return !mode.empty(); }
};
using HeadVersions = std::map<std::string, HeadVersion>;  // by base path: "/src/a"

// Without what is to show as the base has it. nullopt if it is more than the limits allow.
Result<std::optional<HeadVersions>> find_head_versions(const AgentOverlay& overlay, const PinnedGit& pinned);

bool is_at_or_below_one(std::string_view path, const std::set<std::string, std::less<>>& paths);

}  // namespace warren
