// Agents in a blob store, such as a bucket of S3: each push keeps the state of an agent with all its checkpoints.
//
// The file is stored in blocks under their hashes, so a push sends only blocks that are not there yet. A state names
// its blocks; it is stored last, so it is whole if it exists. Keys, below the store's own prefix:
//
//   AGENT/states/NAME          JSON: the time, sizes, checkpoints, and the hash of each block
//   AGENT/blocks/HH/HASH       a block; HASH is its SHA-256, HH the first two digits
//
// What comes back from a store is a stranger's: each block and the whole are compared with their hashes, and the file
// is checked like any backup (agent/copies/copy_check.h), as it was when it was pushed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/copies/copy_check.h"
#include "agent/copies/create.h"
#include "agent/copies/pushed_state.h"
#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

struct PushReport {
  PushedState state;
  std::uint64_t blocks_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t blocks_mended = 0;  // of those sent: they were in the store with another content
  bool follows_unmarked = false;    // the state before it does not say which agent it is of
  CopyFaults faults;                // for which a pull will refuse it; it is stored all the same
};

// Done and all bytes; called by one thread at a time.
using BytesDone = std::function<void(std::uint64_t done, std::uint64_t total)>;

// "s3://bucket/prefix", with ${NAME} for variables of the environment.
Result<std::unique_ptr<BlobStore>> open_push_store(const std::string& address, Clock& clock);

// Works while the agent is in use; needs as much space as the agent file beside it, for a moment. An agent without an
// identity gets one, if its file can be written. kConflict if the newest state is of another agent of this name.
enum class StoredBlocks {
  kTrust,   // a block with the right name and size is not sent again
  kVerify,  // it is read and compared with its hash; O(agent) bytes are fetched
};
struct PushOptions {
  StoredBlocks stored = StoredBlocks::kTrust;
  BytesDone progress = {};
};
Result<PushReport> push_agent(Agent& agent, BlobStore& store, Clock& clock, const PushOptions& options = {});

// Oldest first.
Result<std::vector<std::string>> list_pushed(BlobStore& store, const std::string& agent_id);
// kNotFound if there is none; kCorrupt.
Result<PushedState> get_pushed(BlobStore& store, const std::string& agent_id, const std::string& name);
// Whether get_pushed failed because of this one state: others in the store may be whole.
bool is_about_one_state(const Error& error);

// Makes the agent `id` (or path) what was pushed under `agent_id`; with kYes it replaces one that exists. As
// restore_agent, also in errors. Without a name: the newest state. kConflict if the agent that exists is another one.
struct PullOptions {
  std::string agent_id;
  std::optional<std::string> state;
  std::string id;
  Replace replace = Replace::kNo;
  Replace replace_another = Replace::kNo;  // also an agent that is not the one that was pushed
  FaultyCopy faulty = FaultyCopy::kRefuse;
};
struct PullReport {
  std::string path;
  PushedState state;
  bool replaced_unmarked = false;  // an agent, by a state that does not say which agent it is of
  CopyFaults faults;               // that were taken
};
Result<PullReport> pull_agent(BlobStore& store, const PullOptions& options, Clock& clock,
                              const BytesDone& progress = {});

}  // namespace warren
