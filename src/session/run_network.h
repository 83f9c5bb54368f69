// The network of a run: which hosts it may reach, the process that connects to them, and the record of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "net/host_rules.h"
#include "net/upstream.h"
#include "os/fd.h"

namespace warren {

enum class NetworkAccess {
  kAll,     // the host's network
  kNone,    // a loopback device of its own
  kByName,  // that, and our proxy
};

struct NetworkChoice {
  NetworkAccess access = NetworkAccess::kAll;
  net::HostRules hosts;            // for kByName
  std::vector<std::string> words;  // that it was made of
  net::Upstreams upstreams;        // the user's own proxies, which our proxy goes through
};

// "all", "none", or words as HostRules takes them. kInvalid.
Result<NetworkChoice> parse_network(std::span<const std::string> words);

// What the session's messages call it.
std::string_view word_of(NetworkAccess access);
std::optional<NetworkAccess> find_network_access(std::string_view word);

// The variables by which programs inside find the proxy, NAME=VALUE each.
std::vector<std::string> proxy_variables();

struct HostCount {
  std::string host;
  std::uint16_t port = 0;
  std::size_t count = 0;
  std::string reason;  // empty: no rule allows it
  std::string allow;   // the rule that would allow it; may be empty
};

// Each host once, in the order in which it was first asked for.
struct NetworkSummary {
  std::vector<HostCount> reached;
  std::vector<HostCount> refused;
  std::vector<HostCount> failed;
  bool is_cut = false;  // there were more connections than the record holds
};

// The file in a session's folder with one line of JSON for each connection.
std::string network_record(const std::string& session_dir);
// What was recorded from this position on. Empty if there is no record.
NetworkSummary read_network_record(const std::string& path, std::uint64_t from);

// The proxy, in a process of its own: it parses what a hostile client sends, so it must hold nothing else.
class ProxyProcess {
 public:
  // Forks: call it before any thread is started.
  static Result<std::unique_ptr<ProxyProcess>> start(const NetworkChoice& network, const std::string& record);
  ~ProxyProcess();  // ends it
  ProxyProcess(const ProxyProcess&) = delete;
  ProxyProcess& operator=(const ProxyProcess&) = delete;

  // From now on it serves what connects to this socket.
  Status serve(const Fd& listener);

 private:
  ProxyProcess(pid_t pid, Fd control) : pid_(pid), control_(std::move(control)) {}

  pid_t pid_;
  Fd control_;
};

}  // namespace warren
