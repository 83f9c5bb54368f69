// Names that `run` makes up for sessions.
#pragma once

#include <string>

#include "base/result.h"

namespace warren {

enum class SessionNaming { kWords, kUuid };

// Of no existing session: "swift-fox-12ab", or a random UUID.
Result<std::string> new_session_id(SessionNaming naming);

}  // namespace warren
