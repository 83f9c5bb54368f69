#include "relay/delivery/router.h"

#include <fmt/format.h>

#include "base/path.h"
#include "relay/protocol/names.h"

namespace warren::relay {

const AgentRow* Router::find_agent(std::string_view name) const {
  auto found = agents_.find(name);
  return found == agents_.end() ? nullptr : &found->second;
}

bool Router::is_remote(std::string_view name) const {
  const AgentRow* agent = find_agent(name);
  return agent != nullptr && is_remote(*agent);
}

std::string Router::find_lead() const {
  std::string name = lead_.empty() ? std::string(kLead) : lead_;
  const AgentRow* agent = find_agent(name);
  return agent != nullptr && agent->status != "terminated" ? name : "";
}

Result<Route> Router::route_to(std::string_view name) const {
  WARREN_TRY(check_agent_name(name));
  const AgentRow* agent = find_agent(name);
  if (agent == nullptr || agent->status == "terminated") {
    return Error(Code::kNotFound, fmt::format("there is no agent {}", quote(name)));
  }
  if (is_remote(*agent)) return Route{agent->name, DeliveryState::kRouted};  // only its home knows whether it is active
  return Route{agent->name, agent->status == "active" ? DeliveryState::kPending : DeliveryState::kStored};
}

Result<std::vector<Route>> Router::resolve(std::string_view to, std::string_view sender) const {
  std::vector<Route> routes;
  if (to == "*") {
    for (const auto& [name, agent] : agents_) {
      if (name != sender && agent.status == "active") {
        routes.push_back({name, is_remote(agent) ? DeliveryState::kRouted : DeliveryState::kPending});
      }
    }
    if (routes.empty()) return Error(Code::kNotFound, "there is no other active agent");
    return routes;
  }
  if (to.starts_with('#')) {
    WARREN_TRY(check_channel_name(to.substr(1)));
    auto channel = channels_.find(std::string(to.substr(1)));
    if (channel != channels_.end()) {
      for (const std::string& name : channel->second) {
        Result<Route> route = route_to(name);
        if (route.ok() && name != sender) routes.push_back(*route);
      }
    }
    if (routes.empty()) return Error(Code::kNotFound, fmt::format("{} has no other subscribers", quote(to)));
    return routes;
  }
  if (to == kLead) {
    std::string lead = find_lead();
    if (auto spawner = spawners_.find(sender); lead.empty() && spawner != spawners_.end()) {
      Result<Route> route = route_to(spawner->second);
      if (route.ok()) return std::vector<Route>{*std::move(route)};
    }
    if (lead.empty()) return std::vector<Route>{{std::string(kLead), DeliveryState::kHeld}};
    Route route = WARREN_TRY(route_to(lead));
    return std::vector<Route>{std::move(route)};
  }
  Route route = WARREN_TRY(route_to(to));
  return std::vector<Route>{std::move(route)};
}

}  // namespace warren::relay
