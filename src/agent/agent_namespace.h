// The namespace of an open agent (vfs/namespace.h) with its working memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/semantic/semantic_index.h"
#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"
#include "fs/memory/memory_fs.h"
#include "store/store.h"
#include "vfs/audit_file_fs.h"
#include "vfs/blob_fs.h"
#include "vfs/mount_spec.h"
#include "vfs/namespace.h"
#include "vfs/values.h"

namespace warren {

class HostFs;
class MountedState;

// Where /mem/working is. A process that hosts the agent keeps it in its memory, so it is empty after a restart.
// Commands that end at once keep it in the user's runtime folder, where the next one finds it until the machine
// restarts.
enum class WorkingMemory { kProcess, kRuntimeFolder };

// The folders of a relay's agent that are shown at /ipc, instead of a local queue.
struct RelayMailbox {
  std::string root;                                       // the relay's directory
  std::string name;                                       // the agent's name there, which need not be its id
  std::optional<std::uint64_t> bytes_max = std::nullopt;  // of each folder; null: the usual limit
  bool operator==(const RelayMailbox&) const = default;
};

// Where the files of a base are, with the agent's changes, in a namespace that shows them.
inline constexpr std::string_view kProjectPath = "/project";

// A store that is open already.
struct MountedStore {
  std::string path;  // normalised
  BlobStore& store;  // outlives the namespace
};

struct AgentNamespaceOptions {
  WorkingMemory working = WorkingMemory::kProcess;
  std::vector<MountSpec> mounts = {};
  std::vector<MountedStore> stores = {};
  std::optional<RelayMailbox> relay = std::nullopt;
  bool shows_project = false;  // the merged tree of an agent that is open with its base, at kProjectPath
};

// Thread-safe like the agent, which outlives it.
class AgentNamespace {
 public:
  // With a base: in the file beside the agent file, which is made if it is missing.
  // Backends are opened here, and need not answer yet. kNotFound: the relay has no agent of that name.
  static Result<std::unique_ptr<AgentNamespace>> open(Agent& agent, const AgentNamespaceOptions& options, Clock& clock);
  // Opens it if `opened` is null, for callers on several threads. Holds the lock of the agent's units, and no other, so
  // that a thread inside a unit and one beside it do not wait for each other (docs/design/fs.md, lock order).
  static Status open_once(std::unique_ptr<AgentNamespace>& opened, Agent& agent, const AgentNamespaceOptions& options,
                          Clock& clock);
  // What open_once has opened, if it has: then it stays.
  static AgentNamespace* find_opened(const std::unique_ptr<AgentNamespace>& opened, Agent& agent);

  ~AgentNamespace();
  AgentNamespace(const AgentNamespace&) = delete;
  AgentNamespace& operator=(const AgentNamespace&) = delete;

  Namespace& operator*() { return *namespace_; }
  Namespace* operator->() { return namespace_.get(); }
  const std::string& agent_id() const { return agent_id_; }

  // Items at or below `path` (resolved) by the similarity of their embeddings: of /mem/semantic, or of the vector index
  // that is mounted there. kInvalid for any other path.
  Result<std::vector<VectorMatch>> query(const std::string& path, const VectorQuery& query,
                                         const SemanticIndex::MayRead& may_read);
  // The same by an embedding that this embedder made of a text: items of /mem/semantic that have a text and no
  // embedding get one first, and items of the query's dimension are compared. The query's filter chooses the model.
  Result<std::vector<VectorMatch>> query_text(const std::string& path, const VectorQuery& query,
                                              const SemanticIndex::MayRead& may_read, Embedder& embedder);
  // What of /mem/semantic is not found by queries. kInvalid for any other path, also for one that is mounted.
  Result<SemanticCheck> check_semantic(const std::string& path, const SemanticIndex::MayRead& may_read);

  // As write_value, for the caller of `view`, a view of this namespace; the path is resolved. A .json file below
  // /mem/semantic must be an item that queries can find (SemanticIndex::check_write), unless it is stored as it is.
  Status write(FileSystem& view, std::string_view path, std::string_view data, AsIs as_is,
               std::optional<std::int64_t> expires_at_ms);

  // What checkpoints of this agent cover beside the agent file.
  MountedState& mounted() { return *mounted_; }

  // What was written to backends is stored, or why not.
  Status sync_mounts();
  // Whether each backend answers now.
  struct MountHealth {
    std::string path;
    Status answers;
  };
  std::vector<MountHealth> check_mounts();

 private:
  AgentNamespace();
  Result<FileSystem*> open_working(Agent& agent, WorkingMemory where, Clock& clock);

  struct BlobMount {
    std::string path;
    std::unique_ptr<BlobStore> owned;  // if it was opened here
    BlobStore& store;
    std::unique_ptr<BlobFs> fs;
  };
  Status open_mounts(const AgentNamespaceOptions& options, Clock& clock);
  void add_mount(std::string path, BlobStore& store, std::unique_ptr<BlobStore> owned, Clock& clock);
  const BlobMount* find_mount(std::string_view path) const;  // that this path is in

  std::string agent_id_;
  std::unique_ptr<MountedState> mounted_;
  std::vector<BlobMount> mounts_;
  std::unique_ptr<HostFs> inbox_;  // of the relay
  std::unique_ptr<HostFs> outbox_;
  std::unique_ptr<MemoryFs> memory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<SemanticIndex> semantic_;
  std::unique_ptr<AuditFileFs> audit_file_;  // over the agent's own tree, if it has a trail
  Store* announces_ = nullptr;               // tells audit_file_ that the trail has grown
  std::unique_ptr<Namespace> namespace_;     // destroyed first
};

}  // namespace warren
