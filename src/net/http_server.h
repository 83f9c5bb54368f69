// A small HTTP server that dispatches by method and path. The only file that uses the HTTP library.
//
// Meant for a few local clients (a scraper, a dashboard), not for the internet: it listens on loopback by default, and
// there answers only requests whose Host is a loopback address or `localhost`, so that a web page whose name resolves
// to this machine (DNS rebinding) gets nothing. A connection is for one request, which must arrive within five seconds,
// or within a tenth of a second while other clients wait for a thread: silent clients do not keep others from being
// answered.
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
  std::uint16_t port = 0;          // 0: any free port

  bool is_loopback() const;
  std::string text() const;  // HOST:PORT, [HOST]:PORT
};

// Parses [ADDRESS:]PORT, with a numeric address (IPv6 in brackets) or `localhost`. kInvalid.
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
  std::size_t threads = 8;  // the number of simultaneous requests
  std::size_t body_bytes_max = 1U << 20;
};

// Handlers run in the server's own threads, several at once, from start() until stop() has returned.
class HttpServer {
 public:
  // Binds and listens, but does not answer yet. kDenied: not a loopback address, and the options do not allow others.
  // kBusy: the port is in use.
  static Result<std::unique_ptr<HttpServer>> open(const HttpAddress& address, HttpOptions options = {});
  ~HttpServer();  // stops it

  const HttpAddress& address() const;  // with the actual port

  // Call before start(). GET also answers HEAD. Other paths get 404, other methods of a known path 405.
  void handle(std::string_view method, std::string_view path, HttpHandler handler);

  void start();
  // Ends all connections, even slow and idle ones, and waits for running handlers. May be called again.
  void stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace warren::net
