// The tables of an overlay: what the agent has over a directory of the host (docs/format.md, OV).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/store.h"

namespace warren {

// Makes the agent an overlay over `base_path`, which is absolute and canonical. Idempotent; a second
// call with another path moves the overlay there.
Status make_overlay(Store& store, std::string_view base_path);

// Makes the tables that an overlay of another program, or of an older Warren, is without.
Status complete_overlay(Store& store);

// The base directory, if the agent is an overlay.
Result<std::optional<std::string>> find_overlay_base(Store& store);

}  // namespace warren
