// The difference between an agent at two moments, as `warren diff` shows the one to its base.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/review/patch.h"

namespace warren {

// An agent at two moments. Both are open for reading.
struct TwoMoments {
  std::unique_ptr<Agent> before;
  std::unique_ptr<Agent> after;
};

// Of a value in working memory, or in a store that is mounted.
struct MountedChange {
  TreeChangeKind kind;
  std::string path;  // in the namespace
};

struct PastDiff {
  TwoMoments agents;
  std::vector<TreeChange> changes;      // sorted by path; `base_path` is the path before
  std::vector<std::string> keys_added;  // sorted, as the next two
  std::vector<std::string> keys_changed;
  std::vector<std::string> keys_deleted;
  std::vector<MountedChange> mounted;  // sorted by mount and path; of mounts that are covered at both moments
};

// From checkpoint `from` to checkpoint `to`, or to now. O(what differs) as long as the journal lists every change;
// otherwise both trees are walked. With a base, O(changes to the base). kNotFound. `copied` are the mounts whose copies
// in the agent file were just made what they have now (agent/checkpoints/mounted_state.h), for a comparison with now.
Result<PastDiff> diff_checkpoints(const std::string& id_or_path, std::int64_t from, std::optional<std::int64_t> to,
                                  Clock& clock, const std::vector<std::string>& copied = {});

// The changes to files and links as a patch (changes/review/patch.h). A file over limits::kPatchFileBytes counts as
// binary.
Status write_past_patch(const PastDiff& diff, const PatchSink& sink);

}  // namespace warren
