// An agent's namespace: memory, state, policy and messages as files, under the rules of the namespace and its policy.
//
// A path is as in files.h, or "/agent/<id>/<path>"; ".." never leaves the namespace. A refusal is kDenied and says
// which rule decided. /mem/working is in the memory of this process and shared by all views of one Agent.
//
// Values: a file whose name ends in ".json" holds one JSON value, ".jsonl" one on each line, as JSON text, and a value
// that is not JSON is kInvalid; anything else is text or bytes, stored as it is.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>
#include <warren/v1/blob_store.h>
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

// Something to mount in the namespace (AgentOptions::mounts). Set exactly one of backend and store.
struct VfsMountOptions {
  std::string path;       // "/mem/notes"
  std::string backend{};  // an address as for `warren vfs --mount`: "redis://cache/0", "sqlite:notes.db"
  std::optional<std::string> password{};  // of the service at that address, which must not contain it
  std::shared_ptr<BlobStore> store{};     // a store of your own
};

struct VfsQuery {
  std::vector<float> embedding;
  std::size_t top_k = 10;
  std::string filter{};  // of the metadata, as JSON: R"({"topic": "birds", "year": {"$gte": 2020}})"; empty: every item
};

struct VfsMatch {
  std::string path;
  double score = 0;  // the cosine
  std::string text;
  std::string metadata;  // a JSON object
};

// A view of an open agent: cheap to copy, valid as long as the agent. Thread-safe. The first call of any view opens
// the mounts and makes the standard directories. The namespace of an agent with a base is apart from its files, in the
// same agent file; it is made outside a unit (kBusy), and from then on a unit holds changes of both together.
class Vfs {
 public:
  Result<std::string> read(std::string_view path);
  // Replaces the content and makes missing directories. Below /mem/episodic it appends. A name ending in .json takes
  // one JSON value, .jsonl one on each line; below /mem/semantic, .json takes an item that query() can find:
  // {"text": …, "embedding": […], "metadata": {…}} with as many numbers as the others have. kInvalid, unless as_is.
  Status write(std::string_view path, std::string_view value, const VfsWriteOptions& options = {});
  Status append(std::string_view path, std::string_view value, const VfsWriteOptions& options = {});
  Result<bool> exists(std::string_view path);
  Result<std::vector<std::string>> list(std::string_view path);  // names, sorted by bytes
  Status remove(std::string_view path, const RemoveOptions& options = {});
  Result<VfsStat> stat(std::string_view path);  // of a link itself
  Result<std::vector<VfsMount>> mounts();
  // The items at or below `path` whose embeddings are most similar, best first, of those that may be read: of semantic
  // memory, or of the vector index that is mounted there. kInvalid for a path that is neither, and for an embedding of
  // another length than the items'.
  Result<std::vector<VfsMatch>> query(std::string_view path, const VfsQuery& query);

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
