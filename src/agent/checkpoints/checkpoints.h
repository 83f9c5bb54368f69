// Checkpoints of an agent: its files and keys, with a base everything it has recorded about it, its namespace, and what
// is mounted in that (docs/design/history.md).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "store/history/history.h"

namespace warren {

class MountedState;

// See History for errors. What is done, or cannot be, is in the agent's audit trail if it has one. `mounted` is what
// the checkpoint covers beside the agent file, here and below; null: nothing.
Result<Checkpoint> take_checkpoint(Agent& agent, std::string_view name, std::string_view cause = "asked",
                                   MountedState* mounted = nullptr);

// A mount that does not answer is left out, with a line in `problems`.
struct AutomaticCheckpoint {
  std::string_view name;
  std::string_view cause;
  MountedState* mounted = nullptr;
  std::vector<std::string>* problems = nullptr;
};
Result<Checkpoint> take_automatic_checkpoint(Agent& agent, const AutomaticCheckpoint& what);
// By the agent itself, in its namespace: counts as automatic, and fails if a mount does not answer. Not recorded here.
// kExists if a checkpoint that the agent did not take has the name.
Result<Checkpoint> take_agents_checkpoint(Agent& agent, std::string_view name, std::string_view cause,
                                          MountedState& mounted);
Result<std::vector<Checkpoint>> list_checkpoints(Agent& agent);  // oldest first
Result<Checkpoint> get_checkpoint(Agent& agent, std::string_view which);
Result<CheckpointSize> measure_checkpoint(Agent& agent, std::int64_t id);
Result<bool> has_changed_since_checkpoint(Agent& agent);
Status remove_checkpoint(Agent& agent, std::int64_t id);
Result<std::vector<Checkpoint>> prune_checkpoints(Agent& agent, const PruneRule& rule);

// Makes the agent what it was, and what is mounted, as far as the checkpoint covers it. Returns the checkpoint that was
// taken before, with which the restore can be undone. If a mount does not answer at first, nothing is changed; if it
// stops answering later, the error says so, and repeating the restore finishes it. Files that a pattern in force
// matches are encrypted with its key, whatever the checkpoint has, in the same transaction; if a key for that is
// missing, everything is restored, and the error says so (kDenied).
Result<Checkpoint> restore_checkpoint(Agent& agent, std::int64_t id, MountedState* mounted = nullptr);

// What restore_checkpoint() does with files whose encryption is not what the patterns say.
Status encrypt_restored(Agent& agent);

// The mounts that a checkpoint covers, sorted.
Result<std::vector<std::string>> list_covered_mounts(Agent& agent, std::int64_t id);

// Only these paths, with everything below them; what did not exist is removed. One change, with the checkpoint before
// it, and one event for each path if the agent was opened without a door. A file that was encrypted then, or that a
// pattern in force matches, is encrypted. kDenied if a key for that is missing; kNotFound if a path exists neither then
// nor now; kUnsupported for an agent in memory.
//
// `restored(past, paths)` is called within the change, when the files are back, with the agent as it was; the paths are
// those of the agent's own tree. An agent with a base needs it (changes/upper/keep_restored.h).
using RestoredPaths = std::function<Status(Agent& past, const std::vector<std::string>& paths)>;
Result<Checkpoint> restore_paths(Agent& agent, std::int64_t id, const std::vector<std::string>& paths, Clock& clock,
                                 MountedState* mounted = nullptr, const RestoredPaths& restored = {});

// The agent as it was, for reading, by one thread. It stays what it is though the checkpoint is removed meanwhile.
Result<std::unique_ptr<Agent>> open_checkpoint(Agent& agent, std::int64_t id, Clock& clock);

// Records that a file of one is read, where reads are recorded: PATH@CHECKPOINT.
Status record_past_reading(Agent& agent, std::string_view path);

// What differs between two checkpoints, or between one and now.
Result<PastChanges> list_past_changes(Agent& agent, std::int64_t from, std::optional<std::int64_t> to);
Result<std::vector<Inode>> list_touched_dirs(Agent& agent, const PastChanges& changed);

}  // namespace warren
