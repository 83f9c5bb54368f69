// Decides who gets a message, from TO, the known agents, their subscriptions and the lead.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "relay/ledger/ledger.h"

namespace warren::relay {

struct Route {
  std::string recipient;
  DeliveryState state = DeliveryState::kPending;  // or kStored, kHeld, kRouted
};

// A copy of the ledger's agents and channels, for the one thread that routes.
class Router {
 public:
  explicit Router(std::string lead) : lead_(std::move(lead)) {}

  // kNotFound: no such agent, or no subscribers. kInvalid: `to` is not a valid name. Never empty.
  Result<std::vector<Route>> resolve(std::string_view to, std::string_view sender) const;

  void set_lead(std::string lead) { lead_ = std::move(lead); }

  // Messages to agents of other homes are routed there.
  void set_home(std::string home) { home_ = std::move(home); }
  bool is_remote(const AgentRow& agent) const { return !agent.home.empty() && agent.home != home_; }
  bool is_remote(std::string_view name) const;

  void put_agent(const AgentRow& agent) { agents_[agent.name] = agent; }
  const AgentRow* find_agent(std::string_view name) const;
  const std::map<std::string, AgentRow, std::less<>>& agents() const { return agents_; }

  void set_subscriptions(std::map<std::string, std::set<std::string>> all) { channels_ = std::move(all); }
  void subscribe(const std::string& channel, const std::string& agent) { channels_[channel].insert(agent); }
  void unsubscribe(const std::string& channel, const std::string& agent) { channels_[channel].erase(agent); }

  // The agent that started `agent`: its lead, if there is no other.
  void set_spawner(const std::string& agent, const std::string& spawner) { spawners_[agent] = spawner; }

  std::string find_lead() const;  // "" when nobody leads

 private:
  Result<Route> route_to(std::string_view agent) const;

  std::string lead_;
  std::string home_;
  std::map<std::string, AgentRow, std::less<>> agents_;
  std::map<std::string, std::set<std::string>> channels_;
  std::map<std::string, std::string, std::less<>> spawners_;
};

}  // namespace warren::relay
