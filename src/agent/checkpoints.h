// Checkpoints of an agent: its files and keys, with a base everything it has recorded about it, and its namespace
// (docs/design/history.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "store/history.h"

namespace warren {

// See History for errors. What is done, or cannot be, is in the agent's audit trail if it has one.
Result<Checkpoint> take_checkpoint(Agent& agent, std::string_view name, std::string_view cause = "asked");
Result<Checkpoint> take_automatic_checkpoint(Agent& agent, std::string_view name, std::string_view cause);
Result<std::vector<Checkpoint>> list_checkpoints(Agent& agent);  // oldest first
Result<Checkpoint> get_checkpoint(Agent& agent, std::string_view which);
Result<CheckpointSize> measure_checkpoint(Agent& agent, std::int64_t id);
Result<bool> has_changed_since_checkpoint(Agent& agent);
Status remove_checkpoint(Agent& agent, std::int64_t id);
Result<std::vector<Checkpoint>> prune_checkpoints(Agent& agent, const PruneRule& rule);

// Makes the agent what it was. Returns the checkpoint that was taken before, with which the restore can be undone.
Result<Checkpoint> restore_checkpoint(Agent& agent, std::int64_t id);

// Only these paths, with everything below them; what did not exist is removed. One change, with the checkpoint before
// it, and one event for each path if the agent was opened without a door. kNotFound if a path exists neither then nor
// now; kUnsupported for an agent in memory.
Result<Checkpoint> restore_paths(Agent& agent, std::int64_t id, const std::vector<std::string>& paths, Clock& clock);

// The agent as it was, for reading, by one thread. It stays what it is though the checkpoint is removed meanwhile.
Result<std::unique_ptr<Agent>> open_checkpoint(Agent& agent, std::int64_t id, Clock& clock);

// Records that a file of one is read, where reads are recorded: PATH@CHECKPOINT.
Status record_past_reading(Agent& agent, std::string_view path);

// What differs between two checkpoints, or between one and now.
Result<PastChanges> list_past_changes(Agent& agent, std::int64_t from, std::optional<std::int64_t> to);
Result<std::vector<Inode>> list_touched_dirs(Agent& agent, const PastChanges& changed);

}  // namespace warren
