// Metrics and health of a relay over HTTP.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http_server.h"
#include "relay/relay.h"

namespace warren::cli {

// The address given, else the one of the root's config.json; nullptr when there is neither. Bound, but not answering
// yet: an address that cannot be had shows before anything is started.
Result<std::unique_ptr<net::HttpServer>> open_relay_endpoint(const std::string& root_path,
                                                             const std::optional<std::string>& given);

// Starts to answer GET /metrics and /health. The relay must outlive the server.
void serve_relay_metrics(net::HttpServer& server, relay::Relay& relay);

}  // namespace warren::cli
