#include "relay/shared/routed_deliveries.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kNewsNs = 5'000'000'000;  // how long a lost notification may go unnoticed
constexpr std::size_t kArrivals = 128;

int priority_of(const RoutedDelivery& arrival) {
  if (!arrival.content) return 0;
  Result<Message> message = parse_message(*arrival.content, kHeaderCount + kRelayHeaders);
  return message.ok() ? message->priority : 0;
}

std::string sender_of(const Delivery& delivery) { return delivery.message_id.substr(0, delivery.message_id.find('/')); }

std::string pair_of(const Delivery& delivery) { return fmt::format("{}>{}", sender_of(delivery), delivery.recipient); }

}  // namespace

RoutedDeliveries::Heard RoutedDeliveries::hear() {
  Result<News> news = ledger_.engine().take_news();
  bool is_due = clock_.monotonic_ns() >= at_ns_;
  if (is_due || at_ns_ == INT64_MAX) at_ns_ = clock_.monotonic_ns() + kNewsNs;
  if (!news.ok()) {  // the connection was lost: the next round makes a new one
    is_wanted_ = true;
    return {.is_for_us = false, .concerns_agents = true};
  }
  bool is_for_us = news->is_for_us || is_due;
  is_wanted_ = is_wanted_ || is_for_us;
  return {.is_for_us = is_for_us, .concerns_agents = news->concerns_agents || is_due};
}

// Recipients whose routed deliveries are not claimed yet: deliveries that wait here are older, or a file of an earlier
// one is being fetched.
std::set<std::string> RoutedDeliveries::list_passed_over() const {
  std::set<std::string> names = waiting_for_files_;
  names.insert(waiting_.names().begin(), waiting_.names().end());
  if (waiting_.contains(std::string(kLead)) && !router_.find_lead().empty()) names.insert(router_.find_lead());
  return names;
}

Status RoutedDeliveries::plan(Plan& plan) {
  if (ledger_.homes() == nullptr) return Ok{};
  std::set<std::string> passed_over = list_passed_over();
  bool is_freed = !std::includes(passed_over.begin(), passed_over.end(), passed_over_.begin(), passed_over_.end());
  if (!is_wanted_ && !is_freed) return Ok{};
  auto transaction = WARREN_TRY(ledger_.begin());
  std::string names = fmt::format(",{},", fmt::join(passed_over, ","));
  std::vector<RoutedDelivery> arrivals = WARREN_TRY(ledger_.claim_routed(names, kArrivals));
  passed_over_ = std::move(passed_over);
  is_wanted_ = arrivals.size() == kArrivals;
  if (arrivals.empty()) return Ok{};
  plan.transaction.emplace(std::move(transaction));
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t i = 0; i < arrivals.size(); ++i) order.emplace_back(priority_of(arrivals[i]), i);
  std::sort(order.begin(), order.end());
  for (const auto& [priority, i] : order) WARREN_TRY(plan_one(plan, std::move(arrivals[i])));
  return Ok{};
}

// An error means a shortage, not a bad message.
Status RoutedDeliveries::plan_one(Plan& plan, RoutedDelivery arrival) {
  Delivery& delivery = arrival.delivery;
  std::string sender = sender_of(delivery);
  if (waiting_for_files_.contains(pair_of(delivery))) return Ok{};
  const AgentRow* agent = router_.find_agent(delivery.recipient);
  std::optional<Error> refused;
  if (!arrival.content) refused = Error(Code::kNotFound, "file_disappeared");
  if (agent == nullptr || agent->status == "terminated") {
    refused = Error(Code::kNotFound, fmt::format("there is no agent {}", quote(delivery.recipient)));
  }
  if (!refused && !router_.is_remote(*agent)) {
    Result<Message> message = parse_message(*arrival.content, kHeaderCount + kRelayHeaders);
    Result<Readiness> ready = message.ok() ? courier_.bring_again(plan, delivery, *message) : Readiness::kReady;
    if (!ready.ok() && (ledger_.engine().is_lost() || is_shortage(ready.error()) || ready.error().code() == Code::kIo))
      return ready.error();
    if (!ready.ok()) {
      refused = ready.error();
    } else if (*ready == Readiness::kWaits) {
      waiting_for_files_.insert(pair_of(delivery));
      return Ok{};
    }
  }
  ++plan.delivery_count;
  if (refused) {
    notices_.nack(plan, sender, delivery.message_id, *refused);
    plan.acks.push_back({std::move(delivery), DeliveryState::kDead, refused->message()});
  } else if (router_.is_remote(*agent)) {
    delivery.home = agent->home;
    plan.rerouted.push_back({std::move(delivery), *std::move(arrival.content)});
  } else if (agent->status == "inactive") {
    Message notice{.kind = "status", .reference = delivery.message_id, .others = {{"STATE", "stored"}}};
    notice.body = fmt::format("{} is inactive\n", quote(delivery.recipient));
    notices_.notify(plan, sender, std::move(notice));
    plan.acks.push_back({std::move(delivery), DeliveryState::kStored});
  } else {
    delivery.state = DeliveryState::kPending;
    delivery.deadline_ms = clock_.now_us() / 1000 + config_.deadline.count();
    delivery.inbox_name = inbox_name(delivery.message_id, stamps_.next_ns());
    plan.restaged.push_back({std::move(delivery), *std::move(arrival.content)});
  }
  return Ok{};
}

}  // namespace warren::relay
