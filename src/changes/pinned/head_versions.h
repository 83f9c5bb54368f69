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
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/git/git.h"
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

// The commits whose files the session has had from the base, the last one at the end: its start, the newest one that
// both HEADs contain, and the one that was merged last. `git` has the agent's objects, too; `commit` is the agent's
// HEAD, and `head` the base's.
Result<std::vector<std::string>> list_shared_commits(const AgentOverlay& overlay, const PinnedGit& pinned, Git& git,
                                                     const std::string& commit, const std::string& head);

bool is_at_or_below_one(std::string_view path, const std::set<std::string, std::less<>>& paths);

}  // namespace warren
