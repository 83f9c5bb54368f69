#include "relay/upkeep/upkeep.h"

#include <algorithm>
#include <map>
#include <utility>

namespace warren::relay {
namespace {

constexpr std::int64_t kOutboxesNs = 100'000'000;
constexpr std::size_t kForgetAtOnce = 100;  // messages in one transaction
constexpr std::int64_t kForgetNs = 20'000'000;
constexpr std::int64_t kUsPerDay = 86'400'000'000;

}  // namespace

Status Upkeep::start(Housekeeper::OpenLedger open_ledger) {
  housekeeper_ = WARREN_TRY(Housekeeper::start(root_, config_, clock_, log_, metrics_, std::move(open_ledger)));
  check_disk();
  count_agents();
  return Ok{};
}

void Upkeep::note_round(const Plan& plan) {
  metrics_.note_round();
  metrics_.set_failure(0, "");
  note_messages(plan);
  note_changes(plan.changes);
  note_changes(plan.acks);
  note_requests(plan);
  for (const OperationEnd& one : plan.operations) {
    if (!one.error.empty()) metrics_.add(Tally::kOperationsFailed);
  }
  if (!plan.agents.empty()) count_agents();
  if (clock_.monotonic_ns() >= outboxes_at_ns_) count_outbox_files();
  housekeeper_->note_change();
}

void Upkeep::note_messages(const Plan& plan) {
  bool is_logged = log_.wants(Severity::kDebug);
  std::uint64_t accepted = 0;
  std::uint64_t bytes = 0;
  std::uint64_t refused = 0;
  for (const Outgoing& outgoing : plan.messages) {
    const MessageRow& row = outgoing.row;
    bool is_refused = row.status == "failed";
    if (row.direction == "outbox" && !is_refused) {
      ++accepted;
      bytes += row.size;
    }
    refused += is_refused ? 1 : 0;
    if (!is_logged || is_refused) continue;
    log_.note(Severity::kDebug,
              row.direction == "outbox"  ? "accepted"
              : row.direction == "inbox" ? "told"
                                         : "routed",
              {{"message", row.id},
               {"to", row.target},
               {"kind", row.type},
               {"bytes", row.size},
               {"deliveries", outgoing.deliveries.size()}});
  }
  metrics_.add(Tally::kAccepted, accepted);
  metrics_.add(Tally::kAcceptedBytes, bytes);
  metrics_.add(Tally::kRefused, refused);
  metrics_.add(Tally::kDeadLetters, refused);
}

void Upkeep::note_changes(const std::vector<Change>& changes) {
  bool is_logged = log_.wants(Severity::kDebug);
  for (const Change& change : changes) {
    bool is_dead = !change.is_retry && change.state == DeliveryState::kDead;
    if (change.is_retry) metrics_.add(Tally::kRetries);
    else if (change.state == DeliveryState::kRead) metrics_.add(Tally::kRead);
    else if (change.state == DeliveryState::kAcked) metrics_.add(Tally::kAcked);
    else if (change.state == DeliveryState::kNacked) metrics_.add(Tally::kNacked);
    else if (is_dead) metrics_.add(Tally::kDeadLetters);
    bool is_delivered = !change.is_retry && change.state == DeliveryState::kDelivered;
    if (is_delivered || change.is_read_at_once) metrics_.add(Tally::kDelivered);
    if (!is_logged && !is_dead) continue;
    Json details = {{"message", change.delivery.message_id}, {"recipient", change.delivery.recipient}};
    if (!change.delivery.inbox_name.empty()) details["file"] = change.delivery.inbox_name;
    if (change.is_read_at_once) log_.note(Severity::kDebug, name_of(DeliveryState::kDelivered), details);
    if (change.is_retry) details["attempts"] = change.delivery.attempts;
    if (!change.error.empty()) details["error"] = change.error;
    log_.note(is_dead ? Severity::kWarning : Severity::kDebug, change.is_retry ? "retry" : name_of(change.state),
              details);
  }
}

void Upkeep::note_requests(const Plan& plan) {
  for (const Subscription& one : plan.subscriptions) {
    log_.note(Severity::kInfo, one.is_on ? "subscribed" : "unsubscribed",
              {{"agent", one.agent}, {"channel", one.channel}});
  }
  for (const auto& [id, how] : plan.closed) {
    log_.note(Severity::kInfo, "dead_letter_closed", {{"letter", id}, {"resolution", how}});
  }
  for (const AgentRow& agent : plan.agents) {
    if (log_.wants(Severity::kDebug)) {
      log_.note(Severity::kDebug, "agent", {{"agent", agent.name}, {"status", agent.status}});
    }
  }
  if (!log_.wants(Severity::kDebug)) return;
  for (const Filing& filing : plan.filings) {
    log_.note(Severity::kDebug, "archived", {{"agent", filing.agent}, {"path", filing.path}});
  }
}

// Latency of a new message counts from first sight, of a retried one from its row in the ledger. A message that waited
// for its recipient to be active says nothing about the relay.
void Upkeep::note_published(const Delivery& delivery) {
  if (delivery.discovered_ns != 0) return metrics_.note_latency(clock_.monotonic_ns() - delivery.discovered_ns);
  if (delivery.attempts == 0) return;
  Result<std::optional<MessageRow>> message = records_.find_message(delivery.message_id);
  if (!message.ok() || !*message) return;
  metrics_.note_latency((clock_.now_us() - (*message)->discovered_at_us) * 1000);
}

void Upkeep::note_failure(const Error& why, int failures) {
  metrics_.add(Tally::kRoundsFailed);
  metrics_.set_failure(failures, why.message());
  check_disk();
  housekeeper_->note_change();
}

void Upkeep::count_outbox_files() {
  outboxes_at_ns_ = clock_.monotonic_ns() + kOutboxesNs;
  metrics_.set_outbox_files(static_cast<std::int64_t>(watcher_.count_waiting()));
  metrics_.set_overflows(watcher_.overflows());
}

void Upkeep::count_agents() {
  std::map<std::string, std::int64_t> by_status;
  for (const auto& [name, agent] : router_.agents()) ++by_status[agent.status];
  metrics_.set_agents(std::move(by_status));
}

void Upkeep::use_new_config() {
  disk_.set_alert_percent(config_.disk_alert_percent);
  housekeeper_->use(config_);
  check_disk();
}

void Upkeep::check_disk() {
  bool was_low = disk_.is_low();
  bool is_low = disk_.check();
  if (is_low != was_low) housekeeper_->note_change();
  if (is_low) housekeeper_->free_space();
}

void Upkeep::note_failure_over() {
  metrics_.set_failure(0, "");
  housekeeper_->note_change();
}

std::int64_t Upkeep::wake_at_ns() const { return housekeeper_->has_finished() ? forget_at_ns_ : INT64_MAX; }

bool Upkeep::run_idle_work() {
  count_outbox_files();
  if (!housekeeper_->has_finished() || clock_.monotonic_ns() < forget_at_ns_) return false;
  forget_at_ns_ = clock_.monotonic_ns() + kForgetNs;
  std::vector<std::string> ids = housekeeper_->take_finished(kForgetAtOnce);
  Status forgotten = forget_finished(ids);
  if (!forgotten.ok()) log_.note(Severity::kError, "sweep_failed", {{"error", forgotten.error().message()}});
  return true;
}

Status Upkeep::forget_finished(const std::vector<std::string>& ids) {
  std::uint64_t removed = 0;
  auto transaction = WARREN_TRY(ledger_.begin());
  for (const std::string& id : ids) removed += WARREN_TRY(ledger_.remove_finished(id))
  ? 1 : 0;
  WARREN_TRY(ledger_.remove_operations(clock_.now_us() - config_.archive_days * kUsPerDay, kForgetAtOnce));
  WARREN_TRY(transaction.commit());
  metrics_.add(Tally::kLedgerRemoved, removed);
  housekeeper_->note_change();
  return Ok{};
}

}  // namespace warren::relay
