// Decides what an apply does about conflicts, and which changes need somebody's consent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/apply/plan.h"
#include "changes/changes.h"
#include "changes/conflicts.h"

namespace warren {

enum class ConflictPolicy : std::uint8_t {
  kKeep,   // all conflicts are left
  kMerge,  // text files are merged where both sides changed different lines
  kMark,   // and written with conflict markers where they changed the same ones
};

struct ResolvedConflicts {
  std::vector<ApplyConflict> left;
  std::vector<std::string> merged;  // paths
  std::vector<std::string> marked;  // of these, those with conflict markers
};
// Adds what was merged to `contents`.
Result<ResolvedConflicts> resolve_conflicts(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                            ConflictPolicy policy, MergedContents& contents);

// A file that programs run without being asked to (changes/review/remarks.h).
struct SelfRunningFile {
  std::string path;
  std::string runs;
  bool is_in_git = false;
};
Result<std::vector<SelfRunningFile>> list_self_running(const AgentOverlay& overlay,
                                                       const std::vector<TreeChange>& changes);

// In the user's home directory, no list of such files could be complete.
bool is_home_directory(const std::string& base);

}  // namespace warren
