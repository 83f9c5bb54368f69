// Which hosts a sandboxed command may connect to.
//
// Hosts are compared as parsed names, never as text: "API.Example.COM." is api.example.com, and what looks like a
// number but is not a plain IP address ("0x7f.1") is no host at all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/address.h"

namespace warren::net {

// A DNS name in lower case without a final dot, or an IP address.
struct Host {
  std::string name;                // of an address: its text, without brackets
  std::optional<Address> address;  // if it is one

  std::string text() const;  // with brackets around an IPv6 address
  bool operator==(const Host&) const = default;
};

// An IPv6 address may be in brackets. kInvalid.
Result<Host> parse_host(std::string_view text);

struct HostPort {
  Host host;
  std::uint16_t port = 0;

  std::string text() const;
};

// HOST:PORT, or HOST if there is a default port.
Result<HostPort> parse_host_port(std::string_view text, std::optional<std::uint16_t> default_port = std::nullopt);

// The names of the built-in sets of hosts, for messages.
std::string known_sets();

class HostRules {
 public:
  // Each word is a host, "*.HOST" for all names below it, an address, a network (ADDRESS/BITS) or the name of a
  // built-in set; all but the last may have a port (":PORT", or ":*" for all of them). Without one, ports 80 and 443
  // are meant. Words may be joined by commas. kInvalid.
  static Result<HostRules> parse(std::span<const std::string> words);

  struct Verdict {
    bool is_allowed = false;
    bool is_port_named = false;  // the user named this port, so protocols other than HTTP and TLS may use it
  };
  Verdict judge(const HostPort& target) const;

  // Whether a connection to `target`, which judge() allowed, may go to this address, to which its name leads: one that
  // is not public, or that is this machine's own, only if a rule names it as an address.
  bool may_lead_to(const HostPort& target, const Address& address) const;

 private:
  enum class Ports { kWeb, kOne, kAll };
  struct Rule {
    std::string name;  // empty: by address
    bool is_for_names_below = false;
    std::optional<Address> network;
    int bits = 0;
    Ports ports = Ports::kWeb;
    std::uint16_t port = 0;

    bool covers(std::uint16_t wanted) const;
    bool covers(const Host& host) const;
  };

  static Result<Rule> parse_rule(std::string_view word);
  Status add(std::string_view word);

  std::vector<Rule> rules_;
};

}  // namespace warren::net
