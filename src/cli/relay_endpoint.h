// Metrics and health of a relay over HTTP.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http_server.h"
#include "relay/metrics.h"

namespace warren::cli {

// The address given, else the one of the root's config.json; nullptr when there is neither. Bound, but not answering
// yet: an address that cannot be had shows before anything is started.
Result<std::unique_ptr<net::HttpServer>> open_relay_endpoint(const std::string& root_path,
                                                             const std::optional<std::string>& given);

// GET /metrics and /health. The metrics must outlive the server's stop().
void serve_relay_metrics(net::HttpServer& server, relay::Metrics& metrics);

}  // namespace warren::cli
