// The proxies through which the user's own programs reach the network, from HTTPS_PROXY and similar variables. In many
// networks they are the only way out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/host_rules.h"

namespace warren::net {

struct UpstreamProxy {
  HostPort at;
  std::string authorization;  // for the header Proxy-Authorization; empty: none. A secret
};

class Upstreams {
 public:
  using Variable = std::function<std::string(const std::string& name)>;  // "" if it is not set

  // https_proxy is for tunnels, http_proxy for plain HTTP, all_proxy for both if there is no other; no_proxy names the
  // hosts that are reached directly. Upper case counts if lower case is not set. kInvalid, kUnsupported: the message
  // names the variable, but not its value, which may hold a password.
  static Result<Upstreams> from_environment(const Variable& variable);

  enum class Use { kTunnel, kPlainHttp };
  // The proxy for a connection to `target`; null: none. This machine's loopback is always reached directly.
  const UpstreamProxy* find(const HostPort& target, Use use) const;

  // Each proxy's host and port once, for people.
  std::vector<std::string> names() const;

 private:
  struct Exception {
    std::string name;  // empty: by address
    std::optional<Address> network;
    int bits = 0;
    std::optional<std::uint16_t> port;

    bool covers(const HostPort& target) const;
  };

  void add_exceptions(std::string_view text);
  void add_exception(std::string_view word);

  std::optional<UpstreamProxy> tunnel_;
  std::optional<UpstreamProxy> plain_;
  std::vector<Exception> exceptions_;
  bool uses_none_ = false;
};

// What is sent to a proxy to get a tunnel.
std::string connect_request(const HostPort& target, const std::string& authorization);

// Reads the beginning of a proxy's answer to that. The size of its head if it opens the tunnel; nullopt if more bytes
// are needed. kUnavailable if it refuses, kInvalid if it is no answer.
Result<std::optional<std::size_t>> parse_connect_answer(std::string_view bytes);

}  // namespace warren::net
