// Creates, restores and replaces whole agents.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/copies/copy_check.h"
#include "agent/keys/file_key.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"

namespace warren {

class Agent;

enum class Replace { kNo, kYes };

struct CreateOptions {
  std::optional<std::string> id;    // default: agent-<Unix time>
  Replace replace = Replace::kNo;   // kYes: replaces the existing agent once the new one is complete
  std::optional<std::string> base;  // a host directory
  std::uint32_t chunk_bytes = limits::kChunkBytesDefault;
  bool audit = false;  // every door records changes and refusals (store/record/audit_log.h)
  std::optional<Encryption> encryption;
};

struct CreatedAgent {
  std::string id;
  std::string path;
  std::optional<std::string> base;      // canonical
  std::optional<std::string> key_note;  // the file that says where its key is, if it was made encrypted
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

// Copies an open agent to a new file at `path`, whose folder exists, with what the user agreed to about its base.
// `finish` may change the copy, which has another name until it is complete; it must close it. kExists. After a failure
// nothing remains.
using FinishCopy = std::function<Status(const std::string& draft)>;
Status copy_agent(Agent& source, const std::string& path, const FinishCopy& finish, Clock& clock);

// Whether any process, this one included, has the agent's file open. One that opens it during the call is not noticed.
Result<bool> is_open_somewhere(const std::string& path);

// Restores the agent `id_or_path` from the backup `file`. The backup is checked first: kCorrupt if it has faults,
// unless they are taken. An existing agent is replaced only with kYes, and not while another process has it open
// (kBusy; a process that opens it during the call is not noticed).
struct RestoreOptions {
  std::string id_or_path;
  std::string file;
  Replace replace = Replace::kNo;
  FaultyCopy faulty = FaultyCopy::kRefuse;
};
struct RestoredAgent {
  std::string path;
  CopyFaults faults;  // that were taken
};
Result<RestoredAgent> restore_agent(const RestoreOptions& options, Clock& clock);

// The part of restore_agent after the check. Returns the agent's path.
Result<std::string> make_agent_from(const std::string& id_or_path, const std::string& file, Replace replace,
                                    Clock& clock);

// Where restore_agent would put the agent, or why it would not. Makes ./.agentfs if that is the place.
struct RestorePlace {
  std::string path;
  bool exists = false;
};
Result<RestorePlace> find_restore_place(const std::string& id_or_path, Replace replace, Clock& clock);

// kInvalid for an id that a new agent or session cannot have: check_agent_id, and it must not look like an option.
Status check_new_agent_id(std::string_view id);

// A name beside the agent at `path` for a copy that is not complete yet.
std::string name_of_draft(const std::string& path);
// Removes unfinished copies of the agent at `path` that killed processes have left beside it: those that no process has
// open or locked, and, where one in use may be neither, that nobody has written to for a minute.
void remove_old_drafts(const std::string& path, Clock& clock);
// Also those of this minute: for whoever has the agent, or the session's lock, alone.
void remove_drafts(const std::string& path);

// Removes what the agent had in working memory, which is named after the file that is about to go: it may have been
// written before the agent was encrypted, and nobody could reach it any more. kBusy if a process has it open.
Status remove_working_memory(const std::string& agent_path);

// Deletes the agent file at `path` with what belongs to it: log, index, and our notes about it. kBusy while another
// process has it open.
Status delete_agent(const std::string& path, Clock& clock);

// The search index has the text of the files, encrypted with the old key or not at all. It is made again (src/context).
Status remove_search_index(std::string path);

// Writes an agent's file anew, and gives it the agent's name when it is complete, so that a crash leaves the agent as
// it was or as it is to be. kBusy if any process has the agent open. Notes of keys stay, for backups.
enum class NewKey {
  kFirst,    // encrypts an agent that is not encrypted; kExists if it is
  kAnother,  // of an encrypted one; kInvalid if it is not
  kNone,     // of an encrypted one, which is not encrypted any more
};
struct RekeyOptions {
  std::string id_or_path;
  NewKey change = NewKey::kAnother;
  std::optional<KeySource> source;  // default: a random key
};
struct RekeyedAgent {
  std::string path;
  std::optional<std::string> key_note;  // of the new key
};
Result<RekeyedAgent> rekey_agent(const RekeyOptions& options, Clock& clock);

// Replaces the agent's file by one without unused pages, which may still have what was removed from it. Needs the space
// of a copy for a while. Does nothing if the file is encrypted as a whole. kBusy if it is open.
Status compact_agent(const std::string& path);

}  // namespace warren
