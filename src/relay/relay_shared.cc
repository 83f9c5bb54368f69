// A ledger that several relays share: deliveries between them, and how an unavailable ledger is handled.
#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/attachment.h"
#include "relay/protocol/names.h"
#include "relay/rounds.h"

namespace warren::relay {

// A connection that was lost is noticed here or by the round, which makes a new one.
void Rounds::hear_news() {
  if (ledger_->homes() == nullptr || ledger_->engine().is_lost()) return;
  RoutedDeliveries::Heard heard = routed_.hear();
  operations_wanted_ = operations_wanted_ || heard.is_for_us;
  if (heard.concerns_agents) registry_.note_stale();
}

// First in every round. All answers in a round are of one session: a connection that is lost meanwhile fails the round.
Status Rounds::refresh_ledger() {
  if (ledger_->homes() == nullptr) return Ok{};
  if (ledger_->engine().is_lost()) {
    WARREN_TRY(ledger_->engine().reconnect());
    log_.note(Severity::kInfo, "ledger_is_back");
    registry_.note_stale();
    routed_.want();
    operations_wanted_ = true;
  }
  if (must_recover_) WARREN_TRY(recover_in_doubt().within("recover"));
  if (registry_.is_stale()) WARREN_TRY(registry_.reload());
  // Deliveries held for the lead are older than those routed to it.
  if (routed_.is_wanted() && !router_.find_lead().empty()) waiting_.add(std::string(kLead));
  return Ok{};
}

// As after a restart: the ledger decides what happened.
Status Rounds::recover_in_doubt() {
  {  // waits until the commit in question is over
    auto transaction = WARREN_TRY(ledger_->begin());
    WARREN_TRY(transaction.commit());
  }
  collect_fresh(Wait::kForAll);
  news_.drop_changes();
  retries_.start_over();
  doubtful_.clear();
  WARREN_TRY(recover());
  must_recover_ = false;
  return Ok{};
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
