// Where the relay is, for every door.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace warren {

// The directory that was given, or else `usual`, the value of $WARREN_RELAY_ROOT, or ~/.agent-relay. Empty ones count
// as none.
Result<std::string> find_relay_root(const std::optional<std::string>& given, const std::optional<std::string>& usual);

}  // namespace warren
