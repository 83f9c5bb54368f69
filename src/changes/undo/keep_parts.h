// Large files of agents that are read in part from a file of the base that an apply or an undo is about to replace.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "changes/apply/apply_record.h"

namespace warren {

// Before the steps of an undo: copies to the agent what only those files of the base have that the steps replace or
// remove, for the files that the agent has changed. Afterwards these bytes would be lost. Succeeds if the agent no
// longer exists; if it cannot be opened, nothing is known of these files, and no step must be performed. Does the same
// for the sessions of the same base that can be opened.
Status keep_parts(const ApplyRecord& undo, Clock& clock);

// Before the steps of an apply: the same for the sessions of the base, except the agent that is applied.
Status keep_parts_of_others(const ApplyRecord& apply, Clock& clock);

}  // namespace warren
