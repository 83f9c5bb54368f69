// A client of a host (host/host.h): an agent's namespace, and what other agents share with it, over a Unix socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "backends/vector/vector_index.h"
#include "base/result.h"
#include "crypto/ed25519.h"
#include "fs/types.h"
#include "host/frame.h"

namespace warren {

struct HostClientOptions {
  std::string socket;
  std::string agent;                          // who the client is
  std::optional<uid_t> host_user{};           // who may serve there besides root and this process's user
  std::chrono::milliseconds timeout{60'000};  // for an answer
};

struct HostedEntry {
  std::string name;
  Attributes attributes;
  std::optional<std::int64_t> expires_at_ms;
};

// Thread-safe: requests take turns. After an error of the connection (kUnavailable, kTimeout) every call fails; connect
// again.
class HostClient {
 public:
  // kDenied: the host does not accept the agent or the key, or another user serves there.
  static Result<std::unique_ptr<HostClient>> connect(const HostClientOptions& options, const Ed25519Private& key);

  Result<std::string> read(std::string_view path);
  struct WriteOptions {
    bool as_is = false;
    std::optional<std::chrono::milliseconds> time_to_live{};
  };
  Status write(std::string_view path, std::string_view data, const WriteOptions& options);
  Status append(std::string_view path, std::string_view data, bool as_is);
  Result<std::vector<HostedEntry>> list(std::string_view path);
  Result<HostedEntry> stat(std::string_view path);  // without its name
  Result<bool> exists(std::string_view path);
  enum class Recursive { kNo, kYes };
  Status remove(std::string_view path, Recursive recursive);
  // `filter` is the JSON object of a filter, or null.
  Result<std::vector<VectorMatch>> query(std::string_view path, const std::vector<float>& embedding, std::size_t top_k,
                                         const Json& filter);

  // One request and its answer, which is an error if the host says so.
  Result<Frame> call(std::string_view op, std::string_view path, Json head = Json::object(),
                     std::string_view body = {});

 private:
  HostClient(Fd socket, const HostClientOptions& options) : options_(options), socket_(std::move(socket)) {}
  Status identify(const Ed25519Private& key, uid_t server_user);
  Result<Frame> read_answer();

  HostClientOptions options_;
  std::mutex mutex_;
  FrameSocket socket_;
  bool is_broken_ = false;
};

// What the process of a host says about itself (`warren host status`).
Result<Json> ask_host_status(std::int64_t pid);

}  // namespace warren
