// The transport "streamable HTTP": one endpoint, /mcp.
//
// Clients up to 2025-11-25 have sessions (Mcp-Session-Id), and streams that can be resumed. Requests from 2026-07-28 on
// stand alone. docs/design/mcp.md.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "mcp/service.h"
#include "net/http_server.h"

namespace warren::mcp {

struct HttpDoorOptions {
  net::HttpAddress address;
  std::string token;  // that requests must carry ("Authorization: Bearer …"); "": none is needed
  std::size_t threads = 8;
  std::size_t sessions_max = 4096;
};

class HttpDoor {
 public:
  // Serves from now on. kBusy: the port is in use. The service outlives it.
  static Result<std::unique_ptr<HttpDoor>> start(Service& service, HttpDoorOptions options);
  virtual ~HttpDoor() = default;  // stops it

  virtual const net::HttpAddress& address() const = 0;  // with the actual port
  // Ends subscriptions with their answer, waits for requests that run, for two seconds, and ends every connection.
  virtual void stop() = 0;
};

}  // namespace warren::mcp
