#include "cli/relay/relay_endpoint.h"

#include "base/json.h"
#include "os/files/host_files.h"
#include "relay/root/root.h"

namespace warren::cli {
namespace {

net::HttpResponse health(relay::Metrics& metrics) {
  relay::Snapshot snapshot = metrics.take();
  std::vector<std::string> problems = relay::problems_of(snapshot);
  Json json = {{"status", problems.empty() ? "ok" : "failing"},
               {"problems", problems},
               {"uptime", snapshot.uptime_seconds},
               {"queue_depth", snapshot.queue_depth()}};
  return {.status = problems.empty() ? 200 : 503, .body = dump_json(json) + "\n", .type = "application/json"};
}

}  // namespace

Result<std::unique_ptr<net::HttpServer>> open_relay_endpoint(const std::string& root_path,
                                                             const std::optional<std::string>& given) {
  Result<relay::Config> config = relay::Config{};
  Result<Fd> root = open_host_dir(root_path);
  if (root.ok()) config = relay::read_config_in(root->get());
  if (!config.ok() && config.error().code() == Code::kDenied) {  // repair permissions, as the relay does
    auto repaired = WARREN_TRY(relay::Root::open(root_path, relay::MakeRoot::kYes));
    config = repaired->read_config();
  }
  if (!config.ok()) return config.error();
  const std::string& text = given.value_or(config->metrics);
  if (text.empty()) return std::unique_ptr<net::HttpServer>();
  net::HttpAddress address = WARREN_TRY(net::parse_http_address(text).within("metrics"));
  if (!address.is_loopback() && !config->metrics_public) {
    return Error(Code::kDenied, "metrics: " + address.text() + " is reachable from other machines",
                 "'metrics_public' in config.json allows it");
  }
  return net::HttpServer::open(address, {.exposure = net::Exposure::kAnywhere}).within("metrics");
}

void serve_relay_metrics(net::HttpServer& server, relay::Relay& relay) {
  relay::Metrics& metrics = relay.metrics();
  server.handle("GET", "/metrics", [&metrics](const net::HttpRequest&) {
    return net::HttpResponse{.body = relay::render_metrics(metrics.take()), .type = "text/plain; version=0.0.4"};
  });
  server.handle("GET", "/health", [&metrics](const net::HttpRequest&) { return health(metrics); });
  relay.set_metrics_address(server.address().text());
  server.start();
}

}  // namespace warren::cli
