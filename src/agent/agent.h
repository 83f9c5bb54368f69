// An agent, open: the facade every door uses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/upper_layer.h"
#include "store/kv.h"
#include "store/store.h"
#include "store/tool_calls.h"

namespace warren {

// What an agent over a base shows: the merged tree, or its own file's alone.
enum class Layers { kMerged, kOwn };

struct AgentOptions {
  std::string id_or_path;
  OpenMode mode = OpenMode::kReadWrite;  // kReadWrite: kReadOnly error for a file of an older schema
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;
  Layers layers = Layers::kMerged;
  std::vector<std::string> hidden;  // absolute paths of the host that its base does not show; its own folder never is
};

// An agent that lies over a directory of the host, in its parts.
struct AgentOverlay {
  UpperLayer& upper;             // the agent file's own content
  FileSystem& base;              // the directory, to be read
  FileSystem& merged;            // what Agent::fs() is
  const std::string& base_path;  // absolute
};

// Thread-safe like its store. The clock outlives it.
class Agent {
 public:
  // Of an agent that exists (agent/locate.h); ":memory:" gives a new one that goes with the object.
  static Result<std::unique_ptr<Agent>> open(const AgentOptions& options, Clock& clock);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  FileSystem& fs();                       // of an agent over a base: the merged tree
  std::optional<AgentOverlay> overlay();  // nullopt if it lies over nothing
  KeyValue& kv() { return store_->kv(); }
  ToolCalls& tools() { return store_->tools(); }
  Store& store() { return *store_; }

 private:
  struct Overlay;
  explicit Agent(std::unique_ptr<Store> store);
  Status lay_over(const std::string& base_path, std::vector<std::string> hidden);

  std::unique_ptr<Store> store_;
  std::unique_ptr<Overlay> overlay_;  // goes before the store
};

}  // namespace warren
