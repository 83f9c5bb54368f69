// An agent's namespace: memory, state, policy and messages as files, under the rules of the namespace and its policy.
//
// A path is as in files.h, or "/agent/<id>/<path>"; ".." never leaves the namespace. A refusal is kDenied and says
// which rule decided. /mem/working is in the memory of this process and shared by all views of one Agent.
//
// Values: a file whose name ends in ".json" holds one JSON value, ".jsonl" one on each line, as JSON text, and a value
// that is not JSON is kInvalid; anything else is text or bytes, stored as it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>
#include <warren/v1/files.h>

namespace warren::v1 {

struct AgentState;

// Whose rights a view has: the agent's own, or those of whoever operates it.
enum class Space { kUser, kKernel };

struct VfsOptions {
  Space space = Space::kUser;
};

struct VfsWriteOptions {
  // The file is gone for every reader after this time; not below /mem/episodic. Without one it stays, even if an
  // earlier write gave it one.
  std::optional<std::chrono::milliseconds> time_to_live{};
  bool as_is = false;  // stores bytes whatever the name ends in
};

struct VfsStat {
  Attributes attributes{};
  std::optional<std::int64_t> expires_at_ms{};  // milliseconds since 1970
};

struct VfsMount {
  std::string path;
  std::string backend;  // "agent file", "memory"
};

// A view of an open agent: cheap to copy, valid as long as the agent. Thread-safe. The first call of any view makes the
// standard directories. The namespace of an agent with a base is apart from its files, in the same agent file; it is
// made outside a unit (kBusy), and from then on a unit holds changes of both together.
class Vfs {
 public:
  Result<std::string> read(std::string_view path);
  // Replaces the content and makes missing directories. Below /mem/episodic it appends.
  Status write(std::string_view path, std::string_view value, const VfsWriteOptions& options = {});
  Status append(std::string_view path, std::string_view value, const VfsWriteOptions& options = {});
  Result<bool> exists(std::string_view path);
  Result<std::vector<std::string>> list(std::string_view path);  // names, sorted by bytes
  Status remove(std::string_view path, const RemoveOptions& options = {});
  Result<VfsStat> stat(std::string_view path);  // of a link itself
  Result<std::vector<VfsMount>> mounts();

  // Everything else that can be done with files, under the same rules. Paths are not resolved as above: they begin at
  // the root of the namespace.
  Result<Files> files();

 private:
  friend class Agent;
  Vfs(AgentState& state, Space space) : state_(&state), space_(space) {}
  AgentState* state_;
  Space space_;
};

}  // namespace warren::v1
