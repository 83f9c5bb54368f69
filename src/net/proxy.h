// A proxy that connects to allowed hosts only: HTTP CONNECT, plain HTTP and SOCKS5, on one port.
//
// It resolves names itself, and connects to exactly the addresses that it has checked. In a tunnel, TLS must ask for
// the host that the tunnel was opened for; anything but TLS passes only on ports that the rules name. A plain HTTP
// request gets its own connection, and a Host header that is the judged host.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "base/result.h"
#include "net/host_rules.h"
#include "os/fd.h"

namespace warren::net {

// What became of one connection.
struct ProxyEvent {
  enum class Outcome { kReached, kRefused, kFailed };
  Outcome outcome = Outcome::kReached;
  std::string host;  // empty if what was asked for is not a valid host
  std::uint16_t port = 0;
  std::string reason;  // of a refusal or failure
  std::string allow;   // of a refusal: the rule that would allow it; empty if none would
};

struct ProxyLimits {
  std::size_t connections = 256;
  int head_ms = 30'000;       // for a client to say what it wants
  int connect_ms = 15'000;    // for each address
  int idle_ms = 30 * 60'000;  // a model may think for minutes without sending a byte
  int closing_ms = 60'000;    // when one side has ended
};

// Each connection has a thread of its own.
class Proxy {
 public:
  // `record` is called from several threads at once.
  Proxy(HostRules rules, std::function<void(const ProxyEvent&)> record, ProxyLimits limits = {})
      : rules_(std::move(rules)), record_(std::move(record)), limits_(limits) {}

  // Accepts connections until `stop` is readable or closed; then ends them all and returns.
  void serve(const Fd& listener, int stop);

 private:
  void start(Fd client, int stop);

  HostRules rules_;
  std::function<void(const ProxyEvent&)> record_;
  ProxyLimits limits_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t active_ = 0;  // under mutex_
};

}  // namespace warren::net
