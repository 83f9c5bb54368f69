// Makes what the base has now the version that a node of the agent is compared with.
#pragma once

#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "fs/overlay/upper_layer.h"

namespace warren {

// Replaces the origin of a node that is not a directory, and its merge base: a text that is small enough is kept, so
// that a later edit in the base can be merged. `origin.seen` is the base's node at `place`. Ranges that are in the base
// stay there. Call it in a unit of the upper layer.
Status replace_origin(const AgentOverlay& overlay, const Origin& origin, const std::string& place);

}  // namespace warren
