// Creates, restores and replaces whole agents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"

namespace warren {

enum class Replace { kNo, kYes };

struct CreateOptions {
  std::optional<std::string> id;    // default: agent-<Unix time>
  Replace replace = Replace::kNo;   // kYes: replaces the existing agent once the new one is complete
  std::optional<std::string> base;  // a host directory
  std::uint32_t chunk_bytes = limits::kChunkBytesDefault;
  bool audit = false;  // every door records changes and refusals (store/audit_log.h)
};

struct CreatedAgent {
  std::string id;
  std::string path;
  std::optional<std::string> base;  // canonical
};

// Creates an agent in ./.agentfs, and that folder if it is missing. Fails with kExists, kInvalid (id, chunk size),
// kNotFound or kNotDirectory (base), kBusy if the agent to be replaced is open. After a failure no partial agent
// remains, and an existing one is unchanged. Notes that the user agreed to the base (agent/base_note.h).
Result<CreatedAgent> create_agent(const CreateOptions& options, Clock& clock);

// Makes an independent copy of an agent, with its checkpoints, as ./.agentfs/<id>.db; with `checkpoint` (its id or
// name), as it was then. Works while the agent is in use. kExists, kInvalid (id), kNotFound. After a failure nothing
// remains. With a base the copy has the same one, and what the user agreed to holds for it too.
struct ForkOptions {
  std::string id_or_path;
  std::string id;
  std::optional<std::string> checkpoint;
};
Result<CreatedAgent> fork_agent(const ForkOptions& options, Clock& clock);

// Restores the agent `id_or_path` from the backup `file`. The backup is checked first: kCorrupt if it is damaged. An
// existing agent is replaced only with kYes, and not while another process has it open (kBusy; a process that opens it
// during the call is not noticed). Returns the agent's path.
Result<std::string> restore_agent(const std::string& id_or_path, const std::string& file, Replace replace,
                                  Clock& clock);

// Where restore_agent would put the agent, or why it would not. Makes ./.agentfs if that is the place.
struct RestorePlace {
  std::string path;
  bool exists = false;
};
Result<RestorePlace> find_restore_place(const std::string& id_or_path, Replace replace, Clock& clock);

// Removes unfinished copies of the agent at `path` that killed processes have left beside it.
void remove_old_drafts(const std::string& path, Clock& clock);

// Deletes the agent file at `path` with what belongs to it: log, index, and our notes about it. kBusy while another
// process has it open.
Status delete_agent(const std::string& path, Clock& clock);

}  // namespace warren
