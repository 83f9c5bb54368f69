// HTTP and HTTPS as a client, on curl's library (loaded on first use).
//
// One HttpClient is for one service: it keeps connections open and reuses them. An answer of any status is an answer;
// only what prevents one is an error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace warren {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpCall {
  std::string method = "GET";
  std::string url;                                       // sent as it is written: encode it first
  HttpHeaders headers;                                   // kInvalid if one contains a line break
  Bytes body;                                            // must outlive the call
  std::chrono::milliseconds timeout{30'000};             // of everything together
  std::size_t answer_bytes_max = std::size_t{64} << 20;  // kTooLarge beyond
  const std::atomic<bool>* is_cancelled = nullptr;       // true ends the call within about a second, with kUnavailable
};

struct HttpAnswer {
  int status = 0;
  HttpHeaders headers;  // names in lower case, in the order of their arrival
  std::string body;     // as sent: nothing is decompressed

  bool is_success() const { return status >= 200 && status < 300; }
  const std::string* find(std::string_view name) const;  // a header, by its name in lower case
};

// Judges a numeric address ("10.0.0.1", "::1") before a connection to it: an error refuses it. Behind a proxy it sees
// the proxy's address. Called in the thread of the call.
using AddressCheck = std::function<Status(std::string_view address, std::uint16_t port)>;

struct HttpClientOptions {
  std::chrono::milliseconds connect_timeout{10'000};  // per connection; kept within the call's timeout
  int redirects_max = 0;      // headers of the call other than Authorization are sent to other hosts, too
  std::string ca_file;        // certificates to trust instead of the system's; empty: the system's
  std::size_t idle_max = 16;  // connections kept open
  AddressCheck check_address;
};

// Certificates are always verified. Proxies are taken from the environment (http_proxy, https_proxy, no_proxy), as by
// curl. Thread-safe: calls run side by side.
class HttpClient {
 public:
  // kUnavailable: curl's library is not installed.
  static Result<std::unique_ptr<HttpClient>> open(HttpClientOptions options = {});
  ~HttpClient();

  // kUnavailable: no (whole) answer, for whatever reason and including the timeout. The service may have received the
  // call, even twice: curl repeats it if a connection that was kept open turns out to be closed.
  // kDenied: the address was refused by `check_address`. kTooLarge, kInvalid. Messages name the server, not the path
  // and query.
  Result<HttpAnswer> call(const HttpCall& call);

 private:
  struct State;
  explicit HttpClient(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace warren
