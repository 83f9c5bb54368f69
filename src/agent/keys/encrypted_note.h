// Our own notes of which paths have an encrypted agent, in keys/agents of the operator's directory, which no agent can
// reach. Somebody who cannot read an encrypted agent could put a file that is not encrypted in its place, and wait for
// secrets to be written to it.
#pragma once

#include <string>

#include "base/result.h"
#include "store/store.h"

namespace warren {

// Notes that the agent is encrypted. kDenied if it is not and was, when it was last opened at this path, or if it is
// another one.
Status check_still_encrypted(Store& store, const std::string& agent_path);

// kDenied if the agent at the path is encrypted, and a copy that is not would take its place.
Status check_replaceable_by(Store& copy, const std::string& agent_path);

// Sets or removes (null) the note about a path where Warren has just made or removed an agent.
Status note_encrypted(const std::string& agent_path, const DatabaseKey* key);

// While the file is being replaced by one with another key, or without (null), both are right; until note_encrypted().
Status note_key_change(const std::string& agent_path, const DatabaseKey* before, const DatabaseKey* after);

}  // namespace warren
