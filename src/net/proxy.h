// A proxy that connects to allowed hosts only: HTTP CONNECT, plain HTTP and SOCKS5, on one port.
//
// It resolves names itself, and connects to exactly the addresses that it has checked. In a tunnel, TLS must ask for
// the host that the tunnel was opened for; anything but TLS passes only on ports that the rules name. A plain HTTP
// request gets its own connection, and a Host header that is the judged host.
//
// Where the user's own programs go through a proxy, this one does too (net/upstream.h). The other proxy then resolves
// the name; an address that is not public is refused if it can be seen from here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "base/result.h"
#include "net/host_rules.h"
#include "net/upstream.h"
#include "os/fd.h"

namespace warren::net {

// What became of one connection.
struct ProxyEvent {
  enum class Outcome { kReached, kRefused, kFailed };
  Outcome outcome = Outcome::kReached;
  std::string host;  // empty if what was asked for is not a valid host
  std::uint16_t port = 0;
  std::string reason;  // of a failure, or of a refusal other than that no rule allows the host
  std::string allow;   // of a refusal: the rule that would allow it; empty if none would
};

struct ProxyLimits {
  std::size_t connections = 256;
  int head_ms = 30'000;       // for a client to say what it wants
  int connect_ms = 15'000;    // for each address
  int tunnel_ms = 60'000;     // for an upstream proxy to connect
  int idle_ms = 30 * 60'000;  // a model may think for minutes without sending a byte
  int closing_ms = 60'000;    // when one side has ended
};

// What all connections of a proxy share.
struct ProxyState {
  HostRules rules;
  Upstreams upstreams;
  std::function<void(const ProxyEvent&)> record;
  ProxyLimits limits;
  // Until then (milliseconds of the steady clock) the name service is taken not to answer: where another proxy resolves
  // names, not every connection should wait for it.
  std::atomic<std::int64_t> nameless_until_ms = 0;
};

// Each connection has a thread of its own.
class Proxy {
 public:
  // `record` is called from several threads at once.
  Proxy(HostRules rules, Upstreams upstreams, std::function<void(const ProxyEvent&)> record, ProxyLimits limits = {})
      : state_{std::move(rules), std::move(upstreams), std::move(record), limits} {}

  // Accepts connections until `stop` is readable or closed; then ends them all and returns.
  void serve(const Fd& listener, int stop);

 private:
  void start(Fd client, int stop);

  ProxyState state_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t active_ = 0;  // under mutex_
};

}  // namespace warren::net
