// What an apply is about to do to the base, kept in the agent file until it is done: wr_apply.
//
// There is one at a time. Its meaning is changes/intent.h's; here it is bytes.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "store/store.h"

namespace warren {

// Durable when this returns, unless it is part of a larger transaction. kBusy if there is one already.
Status put_apply_intent(Store& store, Bytes intent);
Result<std::optional<std::string>> find_apply_intent(Store& store);
Status remove_apply_intent(Store& store);  // joins the transaction that is open

}  // namespace warren
