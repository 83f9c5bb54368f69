// The tables of an overlay: an agent on top of a directory of the host (docs/format.md, OV).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/store.h"

namespace warren {

// Makes the agent an overlay of `base_path`, which is absolute and canonical. Idempotent; a
// call with another path changes the base.
Status make_overlay(Store& store, std::string_view base_path);

// Creates the tables that an overlay of another program, or of an older Warren, lacks.
Status complete_overlay(Store& store);

// The base directory, if the agent is an overlay.
Result<std::optional<std::string>> find_overlay_base(Store& store);

}  // namespace warren
