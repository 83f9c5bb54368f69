// The namespace of an open agent (vfs/namespace.h) with its working memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "agent/agent.h"
#include "agent/semantic_index.h"
#include "base/clock.h"
#include "base/result.h"
#include "fs/memory_fs.h"
#include "store/store.h"
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
  static Result<std::unique_ptr<AgentNamespace>> open(Agent& agent, WorkingMemory where, Clock& clock);

  Namespace& operator*() { return *namespace_; }
  Namespace* operator->() { return namespace_.get(); }
  const std::string& agent_id() const { return agent_id_; }
  SemanticIndex& semantic() { return *semantic_; }

 private:
  AgentNamespace() = default;
  Result<FileSystem*> open_working(const std::string& agent_path, WorkingMemory where, Clock& clock);

  std::string agent_id_;
  std::unique_ptr<MemoryFs> memory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<SemanticIndex> semantic_;
  std::unique_ptr<Namespace> namespace_;  // destroyed first
};

// The id that an agent's file stands for: its name without ".db".
std::string agent_id_of(std::string_view path);

}  // namespace warren
