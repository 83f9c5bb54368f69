// The mark of an apply that changes the base, in the agent file until it is done (wr_apply): the name of its record.
//
// Before that, while content is staged, and during an undo, the row has no name: then programs that use the agent know
// that the base is about to change, and nothing has to be recovered. There is at most one row. The steps are in the
// record (changes/apply/apply_record.h): an agent file is not believed about them.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "store/store.h"

namespace warren {

// Marks that the base is about to change, for those who use the agent. Replaces another mark. kBusy if there is an
// intent.
Status put_apply_mark(Store& store);
Status remove_apply_mark(Store& store);  // joins an open transaction
// Whether there is a mark or an intent. Call within a transaction.
Result<bool> is_base_changing(Store& store);

// Replaces a mark. Durable when this returns, unless it is part of a larger transaction. kBusy if there is already an
// intent.
Status put_apply_intent(Store& store, Bytes intent);
Result<std::optional<std::string>> find_apply_intent(Store& store);  // "" for a mark
Status remove_apply_intent(Store& store);                            // or the mark; joins an open transaction

}  // namespace warren
