#include "relay/delivery/notices.h"

#include <string>

#include <fmt/format.h>

#include "relay/protocol/names.h"

namespace warren::relay {

void Notices::notify(Plan& plan, std::string_view agent, Message message) {
  const AgentRow* known = router_.find_agent(agent);
  if (known == nullptr || known->status == "terminated") return;
  Outgoing outgoing;
  outgoing.message = std::move(message);
  outgoing.message.to = agent;
  outgoing.row.agent = kOrchestrator;
  outgoing.row.direction = "inbox";
  outgoing.row.status = "processing";
  outgoing.row.type = outgoing.message.kind;
  outgoing.row.target = agent;
  outgoing.row.size = outgoing.message.body.size();
  outgoing.row.discovered_at_us = clock_.now_us();
  outgoing.discovered_ns = clock_.monotonic_ns();
  Delivery delivery;
  delivery.recipient = agent;
  if (router_.is_remote(*known)) delivery.state = DeliveryState::kRouted;
  delivery.deadline_ms = clock_.now_us() / 1000 + config_.deadline.count();
  outgoing.deliveries.push_back(std::move(delivery));
  ++plan.delivery_count;
  plan.messages.push_back(std::move(outgoing));
}

void Notices::nack(Plan& plan, std::string_view agent, std::string_view reference, const Error& why) {
  Message message{.kind = "nack", .reference = std::string(reference)};
  message.others.push_back({"ERROR", std::string(name_of(why.code()))});
  message.body = why.message() + "\n";
  notify(plan, agent, std::move(message));
}

void Notices::report(Plan& plan, const Delivery& delivery, std::string_view state, std::string_view error) {
  std::string sender = delivery.message_id.substr(0, delivery.message_id.find('/'));
  Message message{.kind = "status", .reference = delivery.message_id};
  message.others.push_back({"STATE", std::string(state)});
  message.others.push_back({"RECIPIENT", delivery.recipient});
  message.body = error.empty() ? "" : fmt::format("{}\n", error);
  notify(plan, sender, std::move(message));
}

}  // namespace warren::relay
