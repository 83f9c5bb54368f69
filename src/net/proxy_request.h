// What a client says to our proxy: HTTP requests and SOCKS5, parsed strictly.
//
// The client is the sandboxed command, so every byte is hostile. What is ambiguous is refused: a server behind us must
// never see another request, or another host, than the one that was judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/host_rules.h"

namespace warren::net {

inline constexpr std::size_t kHeadBytes = std::size_t{32} << 10;

struct ProxyRequest {
  HostPort target;
  bool is_tunnel = false;  // CONNECT
  std::string head;        // for the server, if it is no tunnel: ends the connection after one response
  std::optional<std::uint64_t> body_bytes;  // nullopt: chunked
};

// Parses a head, up to and including the empty line. kInvalid; kUnsupported for an address that is not http.
Result<ProxyRequest> parse_proxy_request(std::string_view head);

// The head of a request that is no tunnel, for another proxy instead of the server. Empty authorization: none.
std::string head_for_proxy(const ProxyRequest& request, const std::string& authorization);

// What the name of an HTTP method or header consists of.
bool is_token(std::string_view text);

// Where the body of a request ends.
class BodyFrame {
 public:
  explicit BodyFrame(std::optional<std::uint64_t> body_bytes);

  // How many of the next bytes belong to the body. kInvalid if they cannot be a chunked body.
  Result<std::size_t> take(std::string_view bytes);
  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State { kPlain, kSize, kData, kDataEnd, kTrailer, kDone };
  Status take_line(std::string_view line);

  State state_;
  std::uint64_t left_ = 0;
  std::string line_;
  std::size_t trailer_bytes_ = 0;
};

// The parts of a SOCKS5 conversation. nullopt: more bytes are needed. kInvalid.
struct SocksGreeting {
  std::size_t size = 0;
  bool offers_no_password = false;
};
Result<std::optional<SocksGreeting>> parse_socks_greeting(std::string_view bytes);

struct SocksRequest {
  std::size_t size = 0;
  bool is_connect = false;
  HostPort target;
};
Result<std::optional<SocksRequest>> parse_socks_request(std::string_view bytes);

}  // namespace warren::net
