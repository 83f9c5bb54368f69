// Writes changes to the base: all of them or none, even after a crash.
//
// The new content is staged in the base; the intent is recorded in the user's state directory, and its name in the
// agent file; its steps are performed; then one transaction removes the changes from the upper layer together with that
// name. recover_apply continues after a crash. See docs/design/changes.md.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/apply/apply_record.h"
#include "changes/apply/plan.h"
#include "changes/changes.h"

namespace warren {

struct ApplyOptions {
  PrivilegedPaths privileged;
  MergedContents contents;
  std::unordered_set<std::string> named;  // paths that the user gave: one that vanishes meanwhile is an error
  UndoLimits undo;
  std::string label;  // the agent as the user should name it to undo this
  // The caller has not excluded conflicts, because the user takes the agent's version. After an undo they are conflicts
  // again.
  bool may_have_conflicts = false;
  // How an error begins if no file was written. The caller may have written something else before.
  std::string unwritten = "nothing was written";
};

struct ApplyReport {
  std::vector<std::string> notes;          // properties that could not be kept exactly
  std::vector<std::string> changed_since;  // paths that the agent changed during the apply: still changes of the agent
  std::vector<std::string> left_out;       // added paths that the agent removed or replaced before they were read
  bool can_be_undone = false;
};

// `changes` must be complete and in order (Selection). Does not look for conflicts. On failure the base is as it was,
// with whatever other programs have changed in it meanwhile; the error names what was kept because of that. Only if the
// agent file cannot be updated, the files are written; the next apply ends what is left then.
// What is left out is removed from `changes`. Reopen the agent afterwards to use it.
Result<ApplyReport> apply_changes(Agent& agent, std::vector<TreeChange>& changes, const ApplyOptions& options);

// An added node that has vanished since it was listed, or is another one by now, was there for a moment only: programs
// make and remove temporary files all the time. They are removed from the changes, and their paths returned; kNotFound
// for one that is `named`. Another directory will do, since what is in it has changes of its own. Begin a unit of the
// upper layer first, and write the changes within it.
Result<std::vector<std::string>> leave_out_vanished(const AgentOverlay& overlay,
                                                    const std::unordered_set<std::string>& named,
                                                    std::vector<TreeChange>& changes);

// Fails for changes that apply_changes refuses whatever the user forces: what must not be written
// (changes/apply/permission.h), and what is below something that is no directory in the base any more. For a caller
// that writes something else before.
Status check_not_refused(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                         const ApplyOptions& options);

// Fails where apply_changes would, as far as that can be found without writing: for example, mount points in the way.
Status rehearse_apply(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, const ApplyOptions& options);

struct Recovery {
  bool is_finished = false;    // the apply was finished; else it was undone
  std::string reason;          // why it was undone
  std::vector<LeftNode> left;  // what was not undone, because somebody had changed it or taken its place
  std::string staging;
  std::vector<std::string> changed_since;  // as in ApplyReport
};

// Whether an apply of this agent was interrupted after it had begun to change the base: its intent and our record say
// so. Reads only; the agent may be open read-only. Also true while another process is applying.
Result<bool> is_interrupted(Agent& agent);

// Removes the mark of an apply that was killed before it wrote anything (store/overlay/apply_log.h): it would keep a
// session from following the base. An apply that is under way holds the base's lock; the mark of an undo stays until
// that is finished. Returns whether there was one.
Result<bool> remove_dead_mark(Agent& agent);

// Finishes an interrupted apply, or undoes it if that is impossible, and removes staging directories of applies that
// ended or never began. Acts only on what our records name (changes/apply/apply_record.h), whatever the agent file
// says, and removes nothing that could not be restored. nullopt if nothing was under way. kBusy while another apply to
// the same base runs. The agent must be open for writing; reopen it afterwards.
Result<std::optional<Recovery>> recover_apply(Agent& agent);

// Writes the changed nodes below a host directory, as they are in the merged tree, and removes deleted and renamed
// paths there. Nothing else changes. Leaves out what apply_changes leaves out. Returns notes.
Result<std::vector<std::string>> write_changes_to(const AgentOverlay& overlay, std::vector<TreeChange>& changes,
                                                  const std::string& dir, PrivilegedPaths privileged);

}  // namespace warren
