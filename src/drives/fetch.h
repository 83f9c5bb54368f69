// Fetching items from the web: with limits, and never from inside the network unless allowed.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"

namespace warren {

class HttpClient;

struct FetchOptions {
  bool may_reach_private = false;  // private, loopback and link-local addresses, and this machine's own
  std::size_t size_bytes_max = std::size_t{64} << 20;
  std::chrono::milliseconds timeout{60'000};
  int redirects_max = 5;
};

struct Fetched {
  std::string body;
  std::string mime;     // as the server says, in lower case; may be empty
  std::string charset;  // likewise
};

// Thread-safe.
class Fetcher {
 public:
  // kUnavailable: curl's library is not installed.
  static Result<std::unique_ptr<Fetcher>> open(const FetchOptions& options);
  ~Fetcher();

  // Every connection is checked by its numeric address, so neither a redirect nor a name that resolves elsewhere leads
  // inside. kDenied: such an address, or the server wants a sign-in. kNotFound, kTooLarge, kUnavailable.
  Result<Fetched> fetch(const std::string& url);

 private:
  Fetcher(const FetchOptions& options, std::unique_ptr<HttpClient> client);

  FetchOptions options_;
  std::unique_ptr<HttpClient> client_;
};

}  // namespace warren
