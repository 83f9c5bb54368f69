// Keeps what an apply replaced or removed, and restores it.
//
// A kept apply is the directory ~/.agentfs/undo/<name>: its record with the steps, and the old nodes, each under the
// number of its slot. Undoing performs the inverse steps by the same machinery as an apply: staged in the base,
// recorded, all or nothing after a crash. What an undo replaces is kept in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "changes/apply/apply_record.h"
#include "changes/conflicts.h"
#include "os/files/host_tree.h"

namespace warren {

struct KeptApply {
  ApplyRecord record;
  std::string dir;
  std::uint64_t bytes = 0;

  std::string name() const { return record.staging.substr(kStagingPrefix.size()); }
  std::int64_t started_at() const { return record.started_us / 1'000'000; }  // Unix seconds
  std::int64_t ends_at() const { return started_at() + record.undo.seconds; }
};

// The newest first. Damaged ones are left out.
Result<std::vector<KeptApply>> list_kept();

// Before the first step: makes sure that what the steps replace can be kept. Copies now what cannot be moved there
// later, because it is on another filesystem or has other names. Does nothing for what is larger than the limit. If it
// fails, no step must be performed.
Status prepare_to_keep(HostTree& base, const ApplyRecord& record);
// The steps were not performed, or were rolled back.
void forget_prepared(const ApplyRecord& record);

// After the steps were performed: moves the old nodes out of the staging directories. May be called again after a
// crash. Removes kept applies that are too old, and the oldest ones while all together are larger than the limit.
// Returns why the apply cannot be undone, if this one could not be kept.
std::optional<std::string> keep_for_undo(HostTree& base, const ApplyRecord& record, std::int64_t now);

struct Undone {
  std::vector<ApplyConflict> conflicts;  // what was changed since: then nothing was written
  std::vector<std::string> paths;
  std::vector<std::string> notes;  // why the undo cannot be undone in turn, and what the agent does not know
};
// Also updates the agent that the apply was of. kConflict if the base is another directory now, kBusy while another
// apply to it runs, or if another undo in it was interrupted.
Result<Undone> undo(const KeptApply& kept, Clock& clock);

// Whether an undo in this base was interrupted, or is under way.
Result<bool> is_undo_interrupted(const std::string& base);
// Finishes the undos that were interrupted and that `which` chooses, or takes them back.
struct UndoRecovery {
  ApplyRecord record;
  std::optional<Error> failure = {};    // neither was possible; kBusy: it is under way
  bool is_finished = false;             // else it was taken back
  std::string reason = {};              // why it was taken back
  std::vector<LeftNode> left = {};      // what was not taken back, because somebody had changed it or taken its place
  std::vector<std::string> notes = {};  // as in Undone
};
using UndoChoice = std::function<bool(const ApplyRecord&)>;
Result<std::vector<UndoRecovery>> recover_undos(const UndoChoice& which, Clock& clock);

}  // namespace warren
