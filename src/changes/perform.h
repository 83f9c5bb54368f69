// Performs an intent on the base, and undoes it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "changes/intent.h"
#include "os/host_tree.h"

namespace warren {

// Every directory that has a staging directory, the base's root first.
std::vector<std::string> tops_of(const Intent& intent);

Status sync_all(HostTree& base, const Intent& intent);  // syncs the filesystem of each

// "/.warren-apply-…/7"
std::string slot_path(const Intent& intent, std::uint64_t slot);

// Performs the steps that are not done yet; may be called again after a crash or an error. kConflict if somebody else
// changed a node meanwhile: then only some steps are done. On success everything is on disk.
Status perform(HostTree& base, const Intent& intent);

// Undoes the steps that are done. A node whose place somebody else has taken stays in its slot; returns those paths.
Result<std::vector<std::string>> roll_back(HostTree& base, const Intent& intent);

}  // namespace warren
