// A client of a host (`warren host up`): an agent's namespace over a Unix socket, and what other agents share with it.
//
// Paths are those of vfs.h; "/agent/<other>/<path>" is in the namespace of another agent, and "/agent" lists those who
// share something. What another agent does not share, and what does not exist, are the same: kNotFound.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>
#include <warren/v1/files.h>
#include <warren/v1/vfs.h>

namespace warren::v1 {

struct HostOptions {
  std::string socket;    // where the host listens
  std::string agent;     // who you are
  std::string key_file;  // that agent's private key, as `warren trust keygen` makes it; for its owner alone
  std::optional<std::uint32_t> host_user{};   // the user that runs the host, if it is neither you nor root
  std::chrono::milliseconds timeout{60'000};  // for an answer
};

// One connection. Thread-safe: requests take turns. After kUnavailable or kTimeout, connect again.
class HostedVfs {
 public:
  // kDenied: the host does not accept this agent by this key.
  static Result<std::unique_ptr<HostedVfs>> connect(const HostOptions& options);
  ~HostedVfs();
  HostedVfs(const HostedVfs&) = delete;
  HostedVfs& operator=(const HostedVfs&) = delete;

  Result<std::string> read(std::string_view path);  // at most 64 MiB (kTooLarge)
  // Replaces the content and makes missing directories. Below /mem/episodic it appends.
  Status write(std::string_view path, std::string_view value, const VfsWriteOptions& options = {});
  Status append(std::string_view path, std::string_view value, const VfsWriteOptions& options = {});
  Result<bool> exists(std::string_view path);
  Result<std::vector<std::string>> list(std::string_view path);  // names, sorted by bytes
  Status remove(std::string_view path, const RemoveOptions& options = {});
  Result<VfsStat> stat(std::string_view path);  // of a link itself
  Result<std::vector<VfsMatch>> query(std::string_view path, const VfsQuery& query);

 private:
  struct State;
  explicit HostedVfs(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace warren::v1
