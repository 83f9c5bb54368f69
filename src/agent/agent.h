// An agent, open: the facade every door uses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "store/kv.h"
#include "store/store.h"
#include "store/tool_calls.h"

namespace warren {

struct AgentOptions {
  std::string id_or_path;
  OpenMode mode = OpenMode::kReadWrite;  // kReadWrite: kReadOnly error for a file of an older schema
  Durability durability = Durability::kPower;
  Commits commits = Commits::kEach;
};

// Thread-safe like its store. The clock outlives it.
class Agent {
 public:
  // Of an agent that exists (agent/locate.h); ":memory:" gives a new one that goes with the object.
  static Result<std::unique_ptr<Agent>> open(const AgentOptions& options, Clock& clock);

  FileSystem& fs();
  KeyValue& kv() { return store_->kv(); }
  ToolCalls& tools() { return store_->tools(); }
  Store& store() { return *store_; }

 private:
  explicit Agent(std::unique_ptr<Store> store) : store_(std::move(store)) {}

  std::unique_ptr<Store> store_;
};

}  // namespace warren
