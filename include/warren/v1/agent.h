// An agent, open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <warren/result.h>
#include <warren/v1/files.h>
#include <warren/v1/kv.h>
#include <warren/v1/tools.h>

namespace warren::v1 {

// What a call that returned survives. Either way it is there whole or not at all.
enum class Durability {
  kPower,    // a power cut: the disk has it
  kProcess,  // a killed process; File::sync asks for more
};

enum class IfMissing { kCreate, kFail };
enum class Mode { kReadWrite, kReadOnly };  // kReadOnly creates nothing

// Exactly one of id and path.
struct AgentOptions {
  std::string id{};    // the agent .agentfs/<id>.db below the working directory
  std::string path{};  // a file anywhere; ":memory:" is a new agent that goes with the object
  IfMissing if_missing = IfMissing::kCreate;
  Mode mode = Mode::kReadWrite;
  Durability durability = Durability::kPower;
  std::uint32_t chunk_bytes = 4096;  // of an agent this creates
};

// Several calls as one: what is done through the agent while it lives lands whole at commit(), or,
// without commit(), not at all. It belongs to the thread that began it and ends there; other threads
// and processes wait to write meanwhile, so keep it short. The agent outlives it.
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

// Thread-safe. Other processes may have the same agent open, and see what is written here. When the
// last of them closes it, one file is left, and copying that file copies the agent.
class Agent {
 public:
  // kNotFound with IfMissing::kFail; kCorrupt for a file that is no agent, which stays as it is;
  // kReadOnly for an old format that must be migrated before it can be written.
  static Result<std::unique_ptr<Agent>> open(const AgentOptions& options);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  Files files() { return Files(*state_); }
  KeyValue kv() { return KeyValue(*state_); }
  ToolCalls tools() { return ToolCalls(*state_); }

  const std::string& path() const;  // of the agent file

  Result<std::unique_ptr<Unit>> begin_unit();

  // Copies the agent, while it is in use, to a file that must not exist.
  Status backup(const std::string& path);

 private:
  explicit Agent(std::unique_ptr<AgentState> state);
  std::unique_ptr<AgentState> state_;
};

// "0.1.0": of the library that is linked.
const char* version();

}  // namespace warren::v1
