// A small HTTP server: what answers is chosen by method and path. The one place that names the library behind it.
//
// Meant for a few local clients (a scraper, a dashboard), not for the internet: it listens on loopback unless told
// otherwise, and on loopback answers only requests that were addressed to it by a loopback name, so that a web page
// whose name was made to lead here (DNS rebinding) gets nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::net {

struct HttpAddress {
  std::string host = "127.0.0.1";  // an IPv4 or IPv6 address, without brackets
  std::uint16_t port = 0;          // 0: a free one

  bool is_loopback() const;
  std::string text() const;  // HOST:PORT, [HOST]:PORT
};

// [ADDRESS:]PORT, the address in numbers (IPv6 in brackets) or `localhost`. kInvalid.
Result<HttpAddress> parse_http_address(std::string_view text);

struct HttpRequest {
  std::string method;
  std::string path;  // decoded, without the query
  std::map<std::string, std::string> query;
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

enum class Exposure { kLoopback, kAnywhere };

struct HttpOptions {
  Exposure exposure = Exposure::kLoopback;
  std::size_t threads = 4;  // as many requests at a time
  std::size_t body_bytes_max = 1U << 20;
};

// Handlers run in the server's own threads, several at a time, from start() until stop() has returned.
class HttpServer {
 public:
  // Bound and listening, answering nothing yet. kDenied: not a loopback address, and the options do not allow others.
  // kBusy: somebody else has the port.
  static Result<std::unique_ptr<HttpServer>> open(const HttpAddress& address, HttpOptions options = {});
  ~HttpServer();  // stops it

  const HttpAddress& address() const;  // with the port it got

  // Before start(). GET also answers HEAD. Other paths get 404, other methods of a known path 405.
  void handle(std::string_view method, std::string_view path, HttpHandler handler);

  void start();
  // Ends connections, also slow and idle ones, and waits for handlers that run. Again is fine.
  void stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace warren::net
