// Reads the server's name from the first bytes that a TLS client sends.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace warren::net {

struct TlsHello {
  enum class Kind {
    kIncomplete,  // TLS so far; more bytes are needed
    kNotTls,
    kBroken,  // begins like TLS, but is no ClientHello
    kComplete,
  };
  Kind kind = Kind::kIncomplete;
  std::optional<std::string> server_name;  // as sent; nullopt if there is none
};

// `bytes` is everything since the beginning of the connection. At most 64 KiB are looked at: longer is kBroken.
TlsHello parse_tls_hello(std::string_view bytes);

}  // namespace warren::net
