// The one check of copies of agents. `backup` and `checkpoint push` make it when they store a copy, `restore` and
// `checkpoint pull` before they use one, so that nobody learns of a fault only after the original is lost.
#pragma once

#include <cstddef>
#include <string>

#include "agent/keys/file_key.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

class Agent;

struct CopyFaults {
  std::size_t count = 0;        // of lines in fsck's report, where many of one kind share one
  std::string first;            // as fsck says it
  bool are_repairable = false;  // all of them, by `warren fsck --repair`

  // "a fault: …" or "faults, the first: …"
  std::string text() const;
};

// What fsck finds in the agent file `file`, apart from faults that must not cost the other files. Errors: check_agent.
Result<CopyFaults> find_copy_faults(const std::string& file, const KeyFinder& find_key, Clock& clock);

// Copies an open agent to the new file `file`, as Agent::backup_to, and checks the copy. It stays if it has faults: it
// is better than none.
Result<CopyFaults> back_up(Agent& agent, const std::string& file, Clock& clock);

// What restore_agent and pull_agent do about faults.
enum class FaultyCopy { kRefuse, kTake };

}  // namespace warren
