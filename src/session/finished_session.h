// Sessions in which nothing is left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace warren {

struct FinishedSession {
  std::string id;
  std::vector<std::string> restrictions;  // that were kept with it, for people: a new session of this name has none
};

// The id of the session if remove_if_finished would delete it. Nobody in this process may have it open.
Result<std::optional<std::string>> find_finished(const std::string& id_or_path, Clock& clock);

enum class IfKept : std::uint8_t { kStay, kRemove };  // of a session with the mark of keep_at_end

// Deletes the session if nothing is left in it (SessionSummary::is_empty). nullopt if it stays: something is left, it
// is kept, running or open elsewhere (a mount, a server), or the agent is not a session. Nobody in this process may
// have it open.
Result<std::optional<FinishedSession>> remove_if_finished(const std::string& id_or_path, IfKept if_kept, Clock& clock);

// Keeps a session from being deleted at the end of the run that began it. Does nothing if the agent is not a session.
// A session that is open is not deleted, so the mark can be set after what empties the session.
Status keep_at_end(const std::string& id_or_path);

}  // namespace warren
