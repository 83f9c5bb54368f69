// The steps that undo an apply.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "changes/apply/intent.h"
#include "changes/apply/staging.h"
#include "changes/conflicts.h"
#include "os/files/host_tree.h"

namespace warren {

// Where a kept apply has the content of a slot.
std::string kept_slot_path(std::uint64_t slot);

struct Inverse {
  Intent intent;
  std::vector<ApplyConflict> conflicts;  // what was changed in the base since; by path, one for each
};

// `done` was performed in `base`, and `kept` has what it replaced. Stages copies of that in `staging`.
Result<Inverse> build_inverse(HostTree& base, HostTree& kept, const Intent& done, Staging& staging);

}  // namespace warren
