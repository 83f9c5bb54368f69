// Writing changes to the base: all of them or none, whatever happens on the way.
//
// The new content is staged in the base; the intent is committed to the agent file; the steps are done;
// then the changes leave the upper layer and the intent goes, in one transaction. A crash before the
// commit leaves a staging directory, one after it an intent: recover_apply deals with both. See
// docs/design/changes.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/plan.h"

namespace warren {

struct ApplyOptions {
  SetId set_id = SetId::kDrop;
  MergedContents contents;
};

struct ApplyReport {
  std::vector<std::string> notes;          // what could not be kept exactly
  std::vector<std::string> changed_since;  // paths that the agent changed meanwhile: these changes are still there
};

// `changes` are complete and in order (Selection), and no conflicts are looked for. On failure the base
// is as it was. The agent must be opened anew afterwards to be used.
Result<ApplyReport> apply_changes(Agent& agent, const std::vector<TreeChange>& changes, const ApplyOptions& options);

// What apply_changes would refuse, as far as it shows without writing: mount points in the way, say.
Status rehearse_apply(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, const ApplyOptions& options);

struct Recovery {
  bool is_finished = false;       // the apply was finished; else it was taken back
  std::string reason;             // why it was taken back
  std::vector<std::string> left;  // what could not go back, and is in the staging directory
  std::string staging;
};

// Whether an apply of this agent was cut off. Cheap; the agent may be open for reading only.
Result<bool> needs_recovery(Agent& agent);

// Finishes it, or takes it back where that is impossible; and removes what one that never began has left.
// nullopt if there was no intent. kBusy while an apply to the same base is under way. The agent must be open
// for writing, and opened anew afterwards.
Result<std::optional<Recovery>> recover_apply(Agent& agent);

// Writes the changed nodes below a directory of the host, as they are in the merged tree; what was deleted
// or renamed away is removed there, if it is there. Nothing else changes. Returns notes.
Result<std::vector<std::string>> write_changes_to(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                                  const std::string& dir, SetId set_id);

}  // namespace warren
