// What git ignores among an agent's changes: build output, installed packages, caches.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"

namespace warren {

// By the path of a change: the topmost directory above it that git ignores, or the path itself.
using IgnoredPaths = std::unordered_map<std::string, std::string>;

// Whose .gitignore files count.
enum class Rules {
  kBase,
  kAgent,  // what the agent sees, which it may have changed: never to keep something out of sight
};

// What the base's index has is not ignored. Empty without a repository.
Result<IgnoredPaths> find_ignored(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, Rules rules);

// Those of the files ("/src/a") that git ignores by the base's rules, which may be in directories above the base.
Result<std::unordered_set<std::string>> list_ignored_files(const AgentOverlay& overlay,
                                                           const std::vector<std::string>& paths);

}  // namespace warren
