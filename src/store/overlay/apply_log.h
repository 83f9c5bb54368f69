// The mark of an apply that changes the base, in the agent file until it is done (wr_apply): the name of its record.
//
// There is at most one. The steps are in the record (changes/apply/apply_record.h): an agent file is not believed about
// them.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "store/store.h"

namespace warren {

// Durable when this returns, unless it is part of a larger transaction. kBusy if there is already one.
Status put_apply_intent(Store& store, Bytes intent);
Result<std::optional<std::string>> find_apply_intent(Store& store);
Status remove_apply_intent(Store& store);  // joins an open transaction
Result<bool> is_base_changing(Store& store);

}  // namespace warren
