// Addresses of services: "redis://user:password@host:6379/0?timeout=5s".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace warren {

// Percent signs are decoded in every part but `path`, where an encoded slash has to stay one.
struct Url {
  std::string scheme;  // in lower case
  std::string user;
  std::optional<std::string> password;
  std::vector<std::string> hosts;  // usually one; "a:1,b:2" for a service on several machines. As written, with ports
  std::string path;                // with its leading slash, or empty
  std::vector<std::pair<std::string, std::string>> query;

  const std::string* find(std::string_view name) const;  // in the query
};

struct HostPort {
  std::string host;  // an IPv6 address without brackets
  std::uint16_t port = 0;
};

// kInvalid, never with the password in its message.
Result<Url> parse_url(std::string_view text);
Result<HostPort> parse_host_port(std::string_view text, std::uint16_t default_port);

// For people and logs: without user, password and query.
std::string without_secrets(const Url& url);

// "%41" → "A". kInvalid for a percent sign without two digits, and for a NUL.
Result<std::string> decode_percent(std::string_view text);

}  // namespace warren
