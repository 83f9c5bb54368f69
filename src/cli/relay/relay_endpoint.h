// A relay's metrics and health over HTTP.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http_server.h"
#include "relay/relay.h"

namespace warren::cli {

// Binds the given address, or else the one in the root's config.json; nullptr if there is neither. Does not answer yet:
// this reports an unavailable address before anything is started.
Result<std::unique_ptr<net::HttpServer>> open_relay_endpoint(const std::string& root_path,
                                                             const std::optional<std::string>& given);

// Starts answering GET /metrics and /health. The relay must outlive the server.
void serve_relay_metrics(net::HttpServer& server, relay::Relay& relay);

}  // namespace warren::cli
