// A ledger that several relays share: deliveries between them, and how an unavailable ledger is handled.
#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/attachment.h"
#include "relay/protocol/names.h"
#include "relay/rounds.h"

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

// A connection that was lost is noticed here or by the round, which makes a new one.
void Rounds::hear_news() {
  if (ledger_->homes() == nullptr || ledger_->engine().is_lost()) return;
  Result<News> news = ledger_->engine().take_news();
  bool is_due = clock_.monotonic_ns() >= news_at_ns_;
  if (is_due || news_at_ns_ == INT64_MAX) news_at_ns_ = clock_.monotonic_ns() + kNewsNs;
  if (!news.ok()) {
    registry_.note_stale();
    routed_wanted_ = true;
    return;
  }
  routed_wanted_ = routed_wanted_ || news->is_for_us || is_due;
  operations_wanted_ = operations_wanted_ || news->is_for_us || is_due;
  if (news->concerns_agents || is_due) registry_.note_stale();
}

// First in every round. All answers in a round are of one session: a connection that is lost meanwhile fails the round.
Status Rounds::refresh_ledger() {
  if (ledger_->homes() == nullptr) return Ok{};
  if (ledger_->engine().is_lost()) {
    WARREN_TRY(ledger_->engine().reconnect());
    log_.note(Severity::kInfo, "ledger_is_back");
    registry_.note_stale();
    routed_wanted_ = operations_wanted_ = true;
  }
  if (must_recover_) WARREN_TRY(recover_in_doubt().within("recover"));
  if (registry_.is_stale()) WARREN_TRY(registry_.reload());
  // Deliveries held for the lead are older than those routed to it.
  if (routed_wanted_ && !router_.find_lead().empty()) waiting_.add(std::string(kLead));
  return Ok{};
}

// As after a restart: the ledger decides what happened.
Status Rounds::recover_in_doubt() {
  {  // waits until the commit in question is over
    auto transaction = WARREN_TRY(ledger_->begin());
    WARREN_TRY(transaction.commit());
  }
  collect_fresh(Wait::kForAll);
  changes_.clear();
  failing_.clear();
  doubtful_.clear();
  WARREN_TRY(recover());
  retry_at_ns_ = 0;
  must_recover_ = false;
  return Ok{};
}

// Recipients whose routed deliveries are not claimed yet: deliveries that wait here are older, or a file of an earlier
// one is being fetched.
std::set<std::string> Rounds::list_passed_over() const {
  std::set<std::string> names = waiting_arrivals_;
  names.insert(waiting_.names().begin(), waiting_.names().end());
  if (waiting_.contains(std::string(kLead)) && !router_.find_lead().empty()) names.insert(router_.find_lead());
  return names;
}

Status Rounds::plan_routed(Plan& plan) {
  if (ledger_->homes() == nullptr) return Ok{};
  std::set<std::string> passed_over = list_passed_over();
  bool is_freed = !std::includes(passed_over.begin(), passed_over.end(), passed_over_.begin(), passed_over_.end());
  if (!routed_wanted_ && !is_freed) return Ok{};
  auto transaction = WARREN_TRY(ledger_->begin());
  std::string names = fmt::format(",{},", fmt::join(passed_over, ","));
  std::vector<RoutedDelivery> arrivals = WARREN_TRY(ledger_->claim_routed(names, kArrivals));
  passed_over_ = std::move(passed_over);
  routed_wanted_ = arrivals.size() == kArrivals;
  if (arrivals.empty()) return Ok{};
  plan.transaction.emplace(std::move(transaction));
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t i = 0; i < arrivals.size(); ++i) order.emplace_back(priority_of(arrivals[i]), i);
  std::sort(order.begin(), order.end());
  for (const auto& [priority, i] : order) WARREN_TRY(plan_arrival(plan, std::move(arrivals[i])));
  return Ok{};
}

// An error means a shortage, not a bad message.
Status Rounds::plan_arrival(Plan& plan, RoutedDelivery arrival) {
  Delivery& delivery = arrival.delivery;
  std::string sender = sender_of(delivery);
  if (waiting_arrivals_.contains(pair_of(delivery))) return Ok{};
  const AgentRow* agent = router_.find_agent(delivery.recipient);
  std::optional<Error> refused;
  if (!arrival.content) refused = Error(Code::kNotFound, "file_disappeared");
  if (agent == nullptr || agent->status == "terminated") {
    refused = Error(Code::kNotFound, fmt::format("there is no agent {}", quote(delivery.recipient)));
  }
  if (!refused && !router_.is_remote(*agent)) {
    Result<Message> message = parse_message(*arrival.content, kHeaderCount + kRelayHeaders);
    Result<Readiness> ready = message.ok() ? plan_attachments(plan, delivery, *message) : Readiness::kReady;
    if (!ready.ok() && (ledger_->engine().is_lost() || is_shortage(ready.error()) || ready.error().code() == Code::kIo))
      return ready.error();
    if (!ready.ok()) {
      refused = ready.error();
    } else if (*ready == Readiness::kWaits) {
      waiting_arrivals_.insert(pair_of(delivery));
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
    delivery.deadline_ms = now_ms() + config_.deadline.count();
    delivery.inbox_name = inbox_name(delivery.message_id, stamps_.next_ns());
    plan.restaged.push_back({std::move(delivery), *std::move(arrival.content)});
  }
  return Ok{};
}

// For a delivery that came from another home or waited: whether its attachments are here, or published for the
// recipient's home.
Result<Readiness> Rounds::plan_attachments(Plan& plan, const Delivery& delivery, const Message& message) {
  std::vector<Attachment> attachments = WARREN_TRY(attachments_of(message));
  if (attachments.empty()) return Readiness::kReady;
  if (WARREN_TRY(attachments_->check_or_fetch(message, "")) == Readiness::kWaits) return Readiness::kWaits;
  if (router_.is_remote(delivery.recipient)) {
    if (WARREN_TRY(attachments_->publish(message, "")) == Readiness::kWaits) return Readiness::kWaits;
  } else {
    if (WARREN_TRY(attachments_->hand_out(message, delivery.recipient, "")) == Readiness::kWaits) {
      return Readiness::kWaits;
    }
    attachments_->note_arrived(attachments);
  }
  plan.attached.push_back({delivery.message_id, std::move(attachments)});
  return Readiness::kReady;
}

// Before the message is recorded, its attachments must be where its recipients find them. Usually they are: in this
// relay's store. Agents that cannot reach the store get copies. If the message goes to another home, or may go there
// once there is a lead, the files must be available to others.
Result<Readiness> Rounds::publish_attachments(const Message& message, const std::string& sender,
                                              const std::string& waiter) {
  if (message.find(kAttachmentHeader) == nullptr) return Readiness::kReady;
  Result<std::vector<Route>> routes = router_.resolve(message.to, sender);
  if (!routes.ok()) return Readiness::kReady;  // it will be refused
  Readiness handed = Readiness::kReady;
  for (const Route& route : *routes) {
    bool is_here = route.state == DeliveryState::kPending || route.state == DeliveryState::kStored;
    if (is_here && WARREN_TRY(attachments_->hand_out(message, route.recipient, waiter)) == Readiness::kWaits) {
      handed = Readiness::kWaits;
    }
  }
  if (handed == Readiness::kWaits || ledger_->homes() == nullptr) return handed;
  bool leaves = std::any_of(routes->begin(), routes->end(), [](const Route& route) {
    return route.state == DeliveryState::kRouted || route.state == DeliveryState::kHeld;
  });
  return leaves ? attachments_->publish(message, waiter) : Readiness::kReady;
}

// A delivery that is not made at once may be made by another home, which does not have the sender's file.
Status Rounds::record_body(Outgoing& outgoing) {
  bool is_needed = false;
  for (Delivery& delivery : outgoing.deliveries) {
    is_needed = is_needed || delivery.state != DeliveryState::kPending;
    if (delivery.state == DeliveryState::kRouted) delivery.home = router_.find_agent(delivery.recipient)->home;
  }
  if (!is_needed) return Ok{};
  return ledger_->homes()->put_body(outgoing.row.id, render(outgoing.message, outgoing.row.agent, outgoing.row.id));
}

// The connection was lost while the round was being committed. Whether it happened is found out as after a crash:
// staged files and senders' files stay as they are, and once the ledger is back, it says which of them count.
void Rounds::suspend(Plan plan, const Error& why) {
  if (!must_recover_) log_.note(Severity::kWarning, "commit_in_doubt", {{"messages", plan.messages.size()}});
  must_recover_ = true;
  is_doubtful_ = false;
  plan.changes.clear();
  plan.messages.clear();  // so that nothing is unstaged
  plan.restaged.clear();
  abandon(std::move(plan), why);
}

}  // namespace warren::relay
