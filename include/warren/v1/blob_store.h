// A backend of your own for a path of the namespace: values under keys.
//
//   class Notes final : public warren::BlobStore { … };
//
//   auto agent = WARREN_TRY(warren::Agent::open(
//       {.path = "a.db", .mounts = {{.path = "/mem/notes", .store = std::make_shared<Notes>()}}}));
//   WARREN_TRY(agent->vfs().write("/mem/notes/today", "hello"));  // put("today", "hello")
//
// A key is the path below the mount: 1 to 1024 bytes, components separated by single slashes, without '.', '..' and
// NUL. Keys are ordered by their bytes. docs/backends.md says what files on such a store can do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <warren/result.h>

namespace warren::v1 {

struct BlobInfo {
  std::string key{};             // only list() must set it
  std::uint64_t size = 0;        // of the whole value
  std::string version{};         // changes with every put
  std::int64_t modified_ms = 0;  // milliseconds since 1970, like the following
  std::optional<std::int64_t> expires_at_ms{};
};

struct Blob {
  BlobInfo info{};
  std::string content{};
};

struct PutOptions {
  std::optional<std::chrono::milliseconds> time_to_live{};  // positive: gone for every reader once it has passed
  std::optional<std::string> if_match{};                    // kConflict unless this is the current version
  bool if_absent = false;                                   // kExists if there is a value
};

// What a store can do beyond the minimum; it is never asked for what it cannot do.
struct BlobAbilities {
  bool conditional_puts = false;  // if_match and if_absent; without it, the last of two writers wins
  bool time_to_live = false;
  bool lasts = true;                                // survives the process
  std::uint64_t largest = std::uint64_t{64} << 20;  // bytes of a value
};

// Called by several threads at once, and must not call the agent. Each call should end within seconds: the program that
// uses the file waits. kUnavailable means "try again later": a write then stays in memory and is repeated. What is
// thrown is an error of that call.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  virtual std::string name() const = 0;  // for people, without secrets
  virtual BlobAbilities abilities() const { return {}; }

  virtual Result<std::optional<Blob>> get(std::string_view key) = 0;  // nullopt if there is no value
  // The whole value is replaced, or nothing is. Once it has returned, every get sees it.
  virtual Result<BlobInfo> put(std::string_view key, std::string_view content, const PutOptions& options) = 0;
  virtual Result<bool> remove(std::string_view key) = 0;  // whether there was a value
  // The keys that begin with `prefix` and are not before `from`, in order; fewer than `limit` only if there are no
  // more. Both may be any bytes.
  virtual Result<std::vector<BlobInfo>> list(std::string_view prefix, std::string_view from, std::size_t limit) = 0;

  // Up to `length` bytes from `offset`; fewer at the end. For stores that can do better than reading the whole value.
  virtual Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
    std::optional<Blob> blob = WARREN_TRY(get(key));
    if (!blob) return blob;
    blob->info.size = blob->content.size();
    std::size_t begin = offset < blob->content.size() ? static_cast<std::size_t>(offset) : blob->content.size();
    blob->content = blob->content.substr(begin, static_cast<std::size_t>(length));
    return blob;
  }
  // The same without the content.
  virtual Result<std::optional<BlobInfo>> find(std::string_view key) {
    std::optional<Blob> blob = WARREN_TRY(get(key));
    if (!blob) return std::optional<BlobInfo>();
    blob->info.size = blob->content.size();
    return std::optional<BlobInfo>(std::move(blob->info));
  }
};

}  // namespace warren::v1
