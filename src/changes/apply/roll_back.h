// Undoes the steps of an apply or an undo that was given up.
#pragma once

#include "base/result.h"
#include "changes/apply/apply_record.h"
#include "os/files/host_tree.h"

namespace warren {

// Undoes the steps of the record's intent that are done, and records that it has begun (kRollingBack) and ended
// (kRolledBack). May be called again after a crash or an error.
//
// What somebody has changed since a step wrote it stays where it is, and what would have replaced it stays in its slot;
// so does what we may not change. record.left names those nodes. An error that concerns more than one node (a full
// disk, a filesystem that does not answer) is returned when everything else has been undone: then it can be tried
// again.
Status roll_back(HostTree& base, ApplyRecord& record);

}  // namespace warren
