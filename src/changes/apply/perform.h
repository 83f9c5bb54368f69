// Performs the steps of an apply or an undo on the base.
#pragma once

#include "base/result.h"
#include "changes/apply/apply_record.h"
#include "os/files/host_tree.h"

namespace warren {

enum class Attempt { kFirst, kAfterCrash };

// Performs the steps of the record's intent that are not done yet, and records that they are (kPerformed); after this
// nobody takes the staging directory for that of an interrupted apply. On success everything is on disk. Not after
// roll_back has begun.
//
// kConflict if somebody else changed a node meanwhile. After an error in the first attempt, the record in memory has
// only the steps that may have changed something: those are what roll_back has to undo.
Status perform(HostTree& base, ApplyRecord& record, Attempt attempt);

}  // namespace warren
