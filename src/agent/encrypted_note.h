// Our own notes of which paths have an encrypted agent, in keys/agents of the operator's directory, which no agent can
// reach. Somebody who cannot read an encrypted agent could put a file that is not encrypted in its place, and wait for
// secrets to be written to it.
#pragma once

#include <string>

#include "base/result.h"
#include "store/store.h"

namespace warren {

// Notes that the agent is encrypted. kDenied if it is not and was, when it was last opened at this path.
Status check_still_encrypted(Store& store, const std::string& agent_path);

// Removes the note about a path where Warren has just made or removed an agent.
Status forget_encrypted(const std::string& agent_path);

}  // namespace warren
