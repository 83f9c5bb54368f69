// What commands that store copies of agents, or take them back, say of faults in them.
#pragma once

#include <string>
#include <string_view>

#include "agent/copies/copy_check.h"
#include "base/json.h"
#include "cli/context.h"
#include "cli/syntax/args.h"

namespace warren::cli {

// A copy of the agent `id` was stored, and `taker` ("warren restore") will refuse it. kFailed if it has faults.
Exit warn_of_stored_faults(Context& context, const CopyFaults& faults, const std::string& id, std::string_view taker);
// The agent `id` was made from a copy with faults, because that was asked for.
void warn_of_taken_faults(Context& context, const CopyFaults& faults, const std::string& id);
// "faults": how many, and "fault": the first, or null.
void set_faults(Json& json, const CopyFaults& faults);

Option unchecked_option();
FaultyCopy faulty_copy(const Arguments& args);

}  // namespace warren::cli
