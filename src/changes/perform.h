// Carrying out an intent on the base, and taking it back.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "changes/intent.h"
#include "os/host_tree.h"

namespace warren {

// Every directory with a staging directory, the base's top first.
std::vector<std::string> tops_of(const Intent& intent);

Status sync_all(HostTree& base, const Intent& intent);  // each of their filesystems

// "/.warren-apply-…/7"
std::string slot_path(const Intent& intent, std::uint64_t slot);

// Does what is not done yet; may be called again after a crash or an error. What others changed meanwhile
// is kConflict, and then some steps are done and others are not. Everything is on the disk when it succeeds.
Status perform(HostTree& base, const Intent& intent);

// Takes back what is done. What cannot go back, because others put something in its place, stays in its
// slot; those paths are returned.
Result<std::vector<std::string>> undo(HostTree& base, const Intent& intent);

}  // namespace warren
