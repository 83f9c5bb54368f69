// An open agent: the facade that every door uses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base_note.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/upper_layer.h"
#include "store/kv.h"
#include "store/store.h"
#include "store/tool_calls.h"

namespace warren {

// Which tree an agent with a base shows: the merged tree, or only the content of its own file.
enum class Layers { kMerged, kOwn };

struct AgentOptions {
  std::string id_or_path;
  OpenMode mode = OpenMode::kReadWrite;  // kReadWrite fails with Code::kReadOnly for a file of an older schema
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;
  Layers layers = Layers::kMerged;
  std::vector<std::string>
      hidden;  // absolute host paths to hide from the base; the agent's own folder is always hidden
};

// The parts of an agent with a base.
struct AgentOverlay {
  UpperLayer& upper;             // the agent file's own content
  FileSystem& base;              // the host directory, read-only
  FileSystem& merged;            // the same as Agent::fs()
  const std::string& base_path;  // absolute
  const std::string& agent_path;
  const std::optional<BaseNote>& note;     // ours about this file; nullopt for a file from elsewhere
  const std::vector<std::string>& hidden;  // paths in the base that were hidden from the agent: "/a/secret"
};

// Thread-safe like its store. The clock outlives it.
class Agent {
 public:
  // Opens an existing agent (agent/locate.h). ":memory:" makes a new one that exists as long as the object.
  static Result<std::unique_ptr<Agent>> open(const AgentOptions& options, Clock& clock);
  ~Agent();

  // See Store::close. Only an agent with grouped commits needs it; call nothing afterwards.
  Status close();

  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  FileSystem& fs();                       // the merged tree, if the agent has a base
  std::optional<AgentOverlay> overlay();  // nullopt if it has no base
  KeyValue& kv() { return store_->kv(); }
  ToolCalls& tools() { return store_->tools(); }
  Store& store() { return *store_; }

 private:
  struct Overlay;
  explicit Agent(std::unique_ptr<Store> store);
  static std::vector<std::string> hidden_in_base(const Overlay& overlay, std::vector<std::string> paths);
  Status open_base(const std::string& base_path, std::vector<std::string> hidden);

  std::unique_ptr<Store> store_;
  std::unique_ptr<Overlay> overlay_;  // destroyed before the store
};

}  // namespace warren
