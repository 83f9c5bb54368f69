// Agents in a blob store, such as a bucket of S3: each push keeps the state of an agent with all its checkpoints.
//
// The file is stored in blocks under their hashes, so a push sends only blocks that are not there yet. A state names
// its blocks; it is stored last, so it is whole if it exists. Keys, below the store's own prefix:
//
//   AGENT/states/NAME          JSON: the time, sizes, checkpoints, and the hash of each block
//   AGENT/blocks/HH/HASH       a block; HASH is its SHA-256, HH the first two digits
//
// What comes back from a store is a stranger's: each block and the whole are compared with their hashes, and the file
// is checked like any backup.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/create.h"
#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

struct PushedCheckpoint {
  std::int64_t id = 0;
  std::string name;
  std::int64_t at_us = 0;
};

struct PushedState {
  std::string name;                     // of the state: its time, "20261117T193000.123456Z"
  std::optional<std::string> identity;  // of the agent (store/identity.h); states of older versions have none
  std::uint64_t size_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::string hash;                 // of the whole file
  std::vector<std::string> blocks;  // their hashes, in order; the last one may be shorter
  std::vector<PushedCheckpoint> checkpoints;
};

struct PushReport {
  PushedState state;
  std::uint64_t blocks_sent = 0;
  std::uint64_t bytes_sent = 0;
  bool follows_unmarked = false;  // the state before it does not say which agent it is of
};

// Done and all bytes; called by one thread at a time.
using BytesDone = std::function<void(std::uint64_t done, std::uint64_t total)>;

// "s3://bucket/prefix", with ${NAME} for variables of the environment.
Result<std::unique_ptr<BlobStore>> open_push_store(const std::string& address, Clock& clock);

// Works while the agent is in use; needs as much space as the agent file beside it, for a moment. An agent without an
// identity gets one, if its file can be written. kConflict if the newest state is of another agent of this name.
Result<PushReport> push_agent(Agent& agent, BlobStore& store, Clock& clock, const BytesDone& progress = {});

// Oldest first.
Result<std::vector<std::string>> list_pushed(BlobStore& store, const std::string& agent_id);
// kNotFound if there is none; kCorrupt.
Result<PushedState> get_pushed(BlobStore& store, const std::string& agent_id, const std::string& name);

// Makes the agent `id` (or path) what was pushed under `agent_id`; with kYes it replaces one that exists. As
// restore_agent, also in errors. Without a name: the newest state. kConflict if the agent that exists is another one.
struct PullOptions {
  std::string agent_id;
  std::optional<std::string> state;
  std::string id;
  Replace replace = Replace::kNo;
  Replace replace_another = Replace::kNo;  // also an agent that is not the one that was pushed
};
struct PullReport {
  std::string path;
  PushedState state;
  bool replaced_unmarked = false;  // an agent, by a state that does not say which agent it is of
};
Result<PullReport> pull_agent(BlobStore& store, const PullOptions& options, Clock& clock,
                              const BytesDone& progress = {});

}  // namespace warren
