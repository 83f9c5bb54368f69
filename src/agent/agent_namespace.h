// The namespace of an open agent (vfs/namespace.h) with its working memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"
#include "fs/memory_fs.h"
#include "store/store.h"
#include "vfs/blob_fs.h"
#include "vfs/mount_spec.h"
#include "vfs/namespace.h"

namespace warren {

// Where /mem/working is. A process that hosts the agent keeps it in its memory, so it is empty after a restart.
// Commands that end at once keep it in the user's runtime folder, where the next one finds it until the machine
// restarts.
enum class WorkingMemory { kProcess, kRuntimeFolder };

// Thread-safe like the agent, which outlives it.
class AgentNamespace {
 public:
  // kUnsupported for an agent with a base: its tree is a project's.
  // Backends are opened here, and need not answer yet.
  static Result<std::unique_ptr<AgentNamespace>> open(Agent& agent, WorkingMemory where, Clock& clock,
                                                      const std::vector<MountSpec>& mounts = {});

  Namespace& operator*() { return *namespace_; }
  Namespace* operator->() { return namespace_.get(); }
  const std::string& agent_id() const { return agent_id_; }

  // What was written to backends is stored, or why not.
  Status sync_mounts();
  // Whether each backend answers now.
  struct MountHealth {
    std::string path;
    Status answers;
  };
  std::vector<MountHealth> check_mounts();

 private:
  AgentNamespace() = default;
  Result<FileSystem*> open_working(const std::string& agent_path, WorkingMemory where, Clock& clock);

  struct BlobMount {
    std::string path;
    std::unique_ptr<BlobStore> store;
    std::unique_ptr<BlobFs> fs;
  };
  Status open_mounts(const std::vector<MountSpec>& mounts, Clock& clock);

  std::string agent_id_;
  std::vector<BlobMount> mounts_;
  std::unique_ptr<MemoryFs> memory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Namespace> namespace_;  // destroyed first
};

// The id that an agent's file stands for: its name without ".db".
std::string agent_id_of(std::string_view path);

}  // namespace warren
