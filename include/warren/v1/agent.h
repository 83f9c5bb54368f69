// An open agent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <warren/result.h>
#include <warren/v1/files.h>
#include <warren/v1/kv.h>
#include <warren/v1/tools.h>
#include <warren/v1/vfs.h>

namespace warren::v1 {

// What a completed call survives. Either way a call takes effect completely or not at all.
enum class Durability {
  kPower,    // a power cut
  kProcess,  // a killed process; File::sync makes it survive a power cut
};

enum class IfMissing { kCreate, kFail };
enum class Mode { kReadWrite, kReadOnly };  // kReadOnly creates nothing

// Set exactly one of id and path.
struct AgentOptions {
  std::string id{};    // the agent .agentfs/<id>.db below the working directory
  std::string path{};  // a file anywhere; ":memory:" makes a new agent that exists as long as the object
  IfMissing if_missing = IfMissing::kCreate;
  Mode mode = Mode::kReadWrite;
  Durability durability = Durability::kPower;
  std::uint32_t chunk_bytes = 4096;       // used when the agent is created
  std::vector<VfsMountOptions> mounts{};  // in the namespace; the first call of a Vfs connects
};

// A transaction over several calls: changes through the agent while it exists take effect together at commit(), or,
// without commit(), not at all. Use it only in the thread that began it. Other threads and processes cannot write
// meanwhile, so keep it short. The agent must outlive it.
class Unit {
 public:
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  Status commit();

 private:
  friend class Agent;
  struct State;
  explicit Unit(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// An earlier state of an agent, kept in its file.
struct Checkpoint {
  std::int64_t id = 0;
  std::string name;
  std::int64_t taken_at_us = 0;  // microseconds since 1970
  std::string cause;             // for people: "asked", "before restore", …
};

// Thread-safe. Other processes may have the same agent open and see each other's changes. When the last one closes it,
// the agent is a single file, and copying that file copies the agent.
class Agent {
 public:
  // Fails with kNotFound with IfMissing::kFail; kCorrupt for a file that is not an agent, which is not changed;
  // kReadOnly for an older format, which must be migrated before it can be written; kInvalid for a mount that cannot
  // be.
  static Result<std::unique_ptr<Agent>> open(const AgentOptions& options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  Files files() { return Files(*state_); }
  KeyValue kv() { return KeyValue(*state_); }
  ToolCalls tools() { return ToolCalls(*state_); }
  // The agent's namespace: memory, state, policy and messages, for the agent or for whoever operates it.
  Vfs vfs(const VfsOptions& options = {}) { return Vfs(*state_, options.space); }

  const std::string& path() const;  // of the agent file

  Result<std::unique_ptr<Unit>> begin_unit();

  // Keeps the present state under this name, which need not be unique. Costs what has changed since the last one; the
  // first copies everything. Not while a unit with changes is open. kInvalid for a name that is empty, longer than 255
  // bytes, only digits, or has '/', '@' or control characters. What is mounted in the namespace (AgentOptions::mounts),
  // and its working memory once it is in use, are covered; kUnavailable, and no checkpoint, if a mount does not answer.
  Result<Checkpoint> checkpoint(const std::string& name);
  // Makes files and keys what they were, and returns the checkpoint of what they were just before. `which` is an id, or
  // a name, which means the newest of that name. Tool calls stay. Mounts that the checkpoint covers become what they
  // were; if one stops answering meanwhile, repeating the call finishes it. kNotFound.
  Result<Checkpoint> restore(const std::string& which);
  Result<std::vector<Checkpoint>> checkpoints();  // oldest first
  Status remove_checkpoint(const std::string& which);

  // Copies the agent to a file that must not exist; works while the agent is in use.
  Status backup(const std::string& path);

 private:
  explicit Agent(std::unique_ptr<AgentState> state);
  std::unique_ptr<AgentState> state_;
};

// The version of the linked library: "0.1.0".
const char* version();

}  // namespace warren::v1
