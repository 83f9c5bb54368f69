// An HTTP/1.1 server whose answers may be streams that stay open: for MCP. The only file that uses libmicrohttpd.
//
// One thread serves all connections; a handler must not block it, and answers later, from any thread. An open stream
// costs a descriptor and its unsent bytes, and no thread. HttpServer (net/http_server.h) is for a few short requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_server.h"

namespace warren::net {

struct WebRequest {
  std::string method;
  std::string path;                            // decoded, without the query
  std::map<std::string, std::string> headers;  // names in lower case; of several with one name, the last
  std::string body;

  std::string_view header(const std::string& name) const;  // "" if there is none
};

using WebHeaders = std::vector<std::pair<std::string, std::string>>;

// Answers one request, once: with `answer`, or with a stream. Thread-safe. Once the client is gone, nothing happens.
class WebReply {
 public:
  virtual ~WebReply() = default;
  virtual void answer(int status, WebHeaders headers, std::string body) = 0;
  virtual void begin_stream(WebHeaders headers) = 0;
  // False if the client is gone, or so slow that it is given up.
  virtual bool write(std::string_view text) = 0;
  virtual void end_stream() = 0;
  // Called once, without any lock, when the client closes the connection before it has the whole answer, or its
  // sending side; at once, if it has done so already. From then on nothing can be written to its stream.
  virtual void when_gone(std::function<void()> call) = 0;
  // The server holds as many bytes that clients have not read as it may. Whoever would add to them refuses instead.
  virtual bool is_crowded() const = 0;
};

using WebHandler = std::function<void(WebRequest, std::shared_ptr<WebReply>)>;

// An answer that needs no body of the request.
struct WebRefusal {
  int status = 400;
  WebHeaders headers;
  std::string body;
};
// Looks at a request that has no body yet, in the server's thread; nullopt: it is taken. A refused one is answered at
// once, its body is not read, and the connection ends.
using WebHeadCheck = std::function<std::optional<WebRefusal>(const WebRequest&)>;

struct WebOptions {
  std::size_t connections_max = 2048;
  std::size_t body_bytes_max = std::size_t{16} << 20;     // of a request; more is 413
  std::size_t bodies_bytes_max = std::size_t{128} << 20;  // of all requests that are arriving or being answered; 503
  std::size_t unsent_bytes_max = std::size_t{32} << 20;   // of a stream whose client does not read
  // Of all answers and streams together; beyond it, replies say that they are crowded, and streams are given up.
  std::size_t all_unsent_bytes_max = std::size_t{128} << 20;
  unsigned idle_seconds = 60;  // a connection that sends and takes nothing, without a stream
  // The same for a connection whose first request was not accepted yet. When there are `connections_max`, the oldest of
  // these is closed for the next one, however busy it is: whoever has no token cannot keep others out.
  unsigned newcomer_seconds = 15;
};

class WebServer {
 public:
  // Binds, listens and serves. kBusy: the port is in use. Requests whose length or whose caller can be understood in
  // two ways never reach `check` or `handler`: two Content-Length or Authorization headers, for example, are a 400.
  static Result<std::unique_ptr<WebServer>> start(const HttpAddress& address, WebOptions options, WebHandler handler,
                                                  WebHeadCheck check = {});
  virtual ~WebServer() = default;  // stops it

  virtual const HttpAddress& address() const = 0;  // with the actual port
  // Takes no new connections, ends streams, and answers requests that have no answer yet with 503. May be called again.
  virtual void stop() = 0;
};

}  // namespace warren::net
