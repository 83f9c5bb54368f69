// A round, carried out: files staged, one transaction, files renamed into inboxes.
#include <algorithm>

#include <fmt/format.h>

#include "relay/delivery/inbox_file.h"
#include "relay/protocol/names.h"
#include "relay/rounds.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kDirsNs = 50'000'000;   // how long an inbox stays open while there is something to do
constexpr std::size_t kBodyBytes = 16 * 1024;  // above that, a file is synced rather than kept in the ledger

}  // namespace

Result<bool> Rounds::round() {
  note_left(watcher_->take_left());
  collect_fresh(Wait::kNo);
  Plan plan;
  Status planned = check_syncs();
  if (planned.ok()) planned = refresh_ledger();
  if (planned.ok()) planned = clear_doubt();
  plan.is_trial = planned.ok() && trials_.begin(clock_.monotonic_ns());
  if (planned.ok()) planned = plan.is_trial ? plan_operations(plan) : plan_new(plan);
  for (const std::string& agent : watcher_->take_inboxes_to_check()) news_.inbox_checks().try_emplace(agent, 0);
  bool is_new = !plan.is_empty();
  using Share = DeliveryNews::Share;
  Share due = plan.is_trial ? Share::kNone : due_news(plan);
  auto count = static_cast<std::ptrdiff_t>(plan.messages.size());
  if (planned.ok() && due != Share::kNone) planned = plan_changes(plan, due);
  // Reports of earlier events go first: no sender gets "acked" and then "delivered".
  std::rotate(plan.messages.begin(), plan.messages.begin() + count, plan.messages.end());
  bool has_bodies_to_drop = due != Share::kNone && bodies_.has_unneeded() &&
                            (!plan.changes.empty() || arrivals_.find(bodies_.first_unneeded()) == nullptr);
  if (planned.ok() && plan.is_empty() && !has_bodies_to_drop) return plan.is_trial;
  assign_names(plan);
  if (planned.ok()) planned = stage(plan);
  plan.drops_bodies = has_bodies_to_drop;
  if (planned.ok()) planned = commit(plan, *mailroom_.begin_sync_staged());
  if (!planned.ok()) {
    if (ledger_->homes() != nullptr && ledger_->homes()->is_fenced()) return planned.error();
    if (ledger_->engine().is_in_doubt()) {
      suspend(std::move(plan), planned.error());
    } else {
      abandon(std::move(plan), planned.error());
    }
    return true;
  }
  failures_ = 0;
  for (const OperationEnd& one : plan.operations) trials_.note_recorded(one.id);
  if (!plan.supervision.intents.empty()) operations_wanted_ = true;
  lives_.carry_out(plan);
  upkeep_.note_round(plan);
  publish(plan);
  if (is_new) news_.note_busy();
  return true;
}

Status Rounds::plan_new(Plan& plan) {
  WARREN_TRY(plan_waiting(plan));
  WARREN_TRY(routed_.plan(plan));
  if (!trials_.has_suspects()) WARREN_TRY(plan_operations(plan));
  WARREN_TRY(plan_retries(plan));
  if (!is_ending_) WARREN_TRY(plan_candidates(plan));
  lives_.plan_ends(plan);
  return Ok{};
}

DeliveryNews::Load Rounds::load_with(const Plan& plan) const {
  return {.can_be_deferred = bodies_.are_kept(),
          .arrival_bytes = arrivals_.bytes(),
          .is_log_moving = ledger_->engine().is_moving(),
          .has_new_messages = !plan.is_empty()};
}

// How much of what happened to earlier deliveries this round records.
DeliveryNews::Share Rounds::due_news(const Plan& plan) const {
  bool is_ordinary = plan.acks.empty() && plan.operations.empty() && plan.retried.empty() && plan.restaged.empty() &&
                     plan.supervision.is_empty() && !registry_.has_changes() && !news_.has_inbox_checks();
  return is_ordinary && !is_ending_ ? news_.due(load_with(plan)) : DeliveryNews::Share::kAll;
}

// Small files need not be synced: the ledger has their content until they are synced or read.
Status Rounds::stage_message(Outgoing& outgoing) {
  bool is_staged = std::any_of(outgoing.deliveries.begin(), outgoing.deliveries.end(),
                               [](const Delivery& d) { return d.state == DeliveryState::kPending; });
  if (!is_staged) return Ok{};
  std::string content = render(outgoing.message, outgoing.row.agent, outgoing.row.id);
  bool is_kept = bodies_.are_kept() && content.size() <= kBodyBytes;
  for (const Delivery& delivery : outgoing.deliveries) {
    if (delivery.state != DeliveryState::kPending) continue;
    WARREN_TRY(is_kept ? mailroom_.stage_unsynced(delivery, content) : mailroom_.stage(delivery, content));
  }
  if (!is_kept) return Ok{};
  outgoing.unsynced = std::move(content);
  outgoing.is_arrival = outgoing.deliveries.size() == 1 && outgoing.row.direction != "again" &&
                        outgoing.row.status == "processing" && outgoing.message.find(kAttachmentHeader) == nullptr;
  return Ok{};
}

Status Rounds::stage(Plan& plan) {
  for (Outgoing& outgoing : plan.messages) WARREN_TRY(stage_message(outgoing));
  for (const Restaged& restaged : plan.restaged) WARREN_TRY(mailroom_.stage(restaged.delivery, restaged.content));
  return Ok{};
}

Status Rounds::record_message(Outgoing& outgoing) {
  if (outgoing.is_arrival) {
    return ledger_->put_arrival(outgoing.row, outgoing.deliveries.front(), outgoing.unsynced);
  }
  if (outgoing.row.direction != "again") WARREN_TRY(ledger_->add_message(outgoing.row));
  if (ledger_->homes() != nullptr) WARREN_TRY(record_body(outgoing));
  for (Delivery& delivery : outgoing.deliveries) WARREN_TRY(ledger_->add_delivery(delivery));
  if (!outgoing.unsynced.empty()) {
    auto staged = std::find_if(outgoing.deliveries.begin(), outgoing.deliveries.end(),
                               [](const Delivery& d) { return d.state == DeliveryState::kPending; });
    WARREN_TRY(ledger_->put_body(*staged, outgoing.unsynced));
  }
  WARREN_TRY(attachments_->record(outgoing.message, outgoing.row.id));
  if (outgoing.row.status != "failed") return Ok{};
  return ledger_->bury_message(outgoing.row.id, outgoing.row.error);
}

// An arrival is entered in its current state; usually there is nothing else to record.
Status Rounds::record_changes(Plan& plan, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    std::int64_t stamp = stamp_of(change.delivery);
    const Arrival* arrival = arrivals_.find(stamp);
    if (arrival != nullptr && !plan.entered.contains(stamp)) {
      bool is_over =
          !change.is_retry && (change.state == DeliveryState::kDelivered || change.state == DeliveryState::kRead);
      Delivery delivery = arrival->delivery;
      if (is_over) delivery.state = change.state;
      WARREN_TRY(ledger_->enter(arrival->message, std::move(delivery)));
      plan.entered.emplace(stamp, is_over);
      if (is_over) {
        WARREN_TRY(record_inbox(change));
        continue;
      }
    }
    WARREN_TRY(record_change(change));
  }
  return Ok{};
}

Status Rounds::record_change(const Change& change) {
  if (change.is_retry) return ledger_->set_retry(change.delivery);
  if (change.state == DeliveryState::kDead) return ledger_->bury(change.delivery, change.error);
  WARREN_TRY(ledger_->set_state(change.delivery, change.state, change.error));
  return record_inbox(change);
}

Status Rounds::record_inbox(const Change& change) {
  if (change.state != DeliveryState::kDelivered) return Ok{};
  return ledger_->set_inbox({change.delivery.id, change.delivery.inbox_born_ns});
}

// Once for each message, however many of its deliveries have changed.
Status Rounds::update_statuses(const Plan& plan, const std::vector<Change>& changes) {
  std::unordered_set<std::string_view> updated;
  for (const Change& change : changes) {
    auto entered = plan.entered.find(stamp_of(change.delivery));
    bool is_completed = entered != plan.entered.end() && entered->second;
    if (is_completed && change.state != DeliveryState::kDead) continue;
    bool may_be_last = change.state == DeliveryState::kDelivered || change.state == DeliveryState::kDead;
    if (change.is_retry || (!may_be_last && !change.is_read_at_once)) continue;
    if (updated.insert(change.delivery.message_id).second) {
      WARREN_TRY(ledger_->update_status(change.delivery.message_id));
    }
  }
  return Ok{};
}

Status Rounds::record_rest(const Plan& plan) {
  for (const Restaged& restaged : plan.restaged) WARREN_TRY(ledger_->set_pending(restaged.delivery));
  for (const Restaged& rerouted : plan.rerouted) {
    WARREN_TRY(ledger_->homes()->put_body(rerouted.delivery.message_id, rerouted.content));
    WARREN_TRY(ledger_->reroute(rerouted.delivery));
  }
  for (const DeliveredTo& one : plan.located) WARREN_TRY(ledger_->set_inbox(one));
  for (const Attached& one : plan.attached) WARREN_TRY(attachments_->record(one.attachments, one.message_id));
  for (const AgentRow& agent : plan.agents) WARREN_TRY(ledger_->put_agent(agent));
  for (const std::string& agent : plan.seen) WARREN_TRY(ledger_->touch_agent(agent));
  for (const Subscription& one : plan.subscriptions) {
    WARREN_TRY(one.is_on ? ledger_->subscribe(one.channel, one.agent) : ledger_->unsubscribe(one.channel, one.agent));
  }
  for (const auto& [id, how] : plan.closed) WARREN_TRY(ledger_->close_dead_letter(id, how));
  for (const OperationEnd& one : plan.operations) WARREN_TRY(ledger_->end_operation(one));
  return lives_.record(plan);
}

// Rows are written while the staged files are synced, and committed after that. The commit itself is synced by another
// thread, later, unless more depends on it than files that can be made again.
Status Rounds::commit(Plan& plan, SyncRequest& staged) {
  if (!plan.transaction) {
    auto transaction = WARREN_TRY(ledger_->begin());
    plan.transaction.emplace(std::move(transaction));
  }
  if (ledger_->homes() != nullptr) ledger_->homes()->note_newest_ns(stamps_.newest_ns());
  WARREN_TRY(record_changes(plan, plan.changes));
  for (Outgoing& outgoing : plan.messages) WARREN_TRY(record_message(outgoing));
  WARREN_TRY(record_changes(plan, plan.acks));
  WARREN_TRY(update_statuses(plan, plan.changes));
  WARREN_TRY(update_statuses(plan, plan.acks));
  std::size_t dropped = WARREN_TRY(drop_bodies(plan));
  WARREN_TRY(record_rest(plan));
  WARREN_TRY(mailroom_.syncs().wait(staged).within("staged files"));
  Status committed = plan.transaction->commit_unsynced();
  is_doubtful_ = !committed.ok();
  if (!committed.ok()) return committed;
  bodies_.forget(dropped);
  for (const auto& [stamp, is_over] : plan.entered) arrivals_.remove(stamp);
  if (!plan.must_be_durable()) return Ok{};
  asked_ = syncer_.ask();
  syncer_.wait(asked_).ignore("it is committed: check_syncs() handles the failure");
  return Ok{};
}

// Until an arrival is entered, its row is the only record of it.
Result<std::size_t> Rounds::drop_bodies(const Plan& plan) {
  if (!plan.drops_bodies) return 0;
  return bodies_.drop(
      [&](std::int64_t stamp) { return arrivals_.find(stamp) == nullptr || plan.entered.contains(stamp); });
}

// A sync that failed: until everything is durable in another way, nothing new is taken.
Status Rounds::check_syncs() {
  std::optional<Error> failure = syncer_.failure();
  if (!failure) return Ok{};
  log_.note(Severity::kError, "ledger_sync_failed", {{"error", failure->message()}});
  WARREN_TRY(ledger_->engine().resync().within("sync the ledger"));
  syncer_.note_durable();
  return Ok{};
}

// A commit that failed (at its sync, say) may have reached the disk, and would count after a crash. So its files stay
// staged until another commit has taken its place in the log.
Status Rounds::clear_doubt() {
  if (doubtful_.empty() && !lives_.is_doubtful()) return Ok{};
  auto transaction = WARREN_TRY(ledger_->begin());
  WARREN_TRY(ledger_->put_value("given_up_at", std::to_string(clock_.now_us())));
  WARREN_TRY(transaction.commit());
  for (const std::string& file : doubtful_) mailroom_.remove_staged(file);
  doubtful_.clear();
  if (!lives_.is_doubtful()) return Ok{};
  WARREN_TRY(lives_.reconcile());
  operations_wanted_ = true;
  return Ok{};
}

void Rounds::withdraw(const Delivery& delivery) {
  if (is_doubtful_) doubtful_.push_back(staged_name(delivery.inbox_name, delivery.recipient));
  else mailroom_.unstage(delivery);
}

void Rounds::retry(Delivery delivery, std::string_view why) {
  news_.note_awaited();
  if (delivery.deadline_ms != 0 && now_ms() >= delivery.deadline_ms) {
    news_.add({std::move(delivery), DeliveryState::kDead, std::string(why)});
    return;
  }
  delivery.next_at_ms = retries_.note_failure(delivery.recipient, delivery.attempts++);
  delivery.error = why;
  news_.add({.delivery = std::move(delivery), .state = DeliveryState::kPending, .error = "", .is_retry = true});
}

// While an earlier delivery to a recipient is to be tried again, later ones wait with it: order is kept.
void Rounds::publish_one(const Delivery& delivery) {
  if (retries_.is_failing(delivery.recipient)) return retry(delivery, "waits for an earlier delivery");
  Status published = mailroom_.publish(delivery);
  if (published.ok()) {
    upkeep_.note_published(delivery);
    return fresh_.add(delivery, bodies_.contains(stamp_of(delivery)) ? Backed::kYes : Backed::kNo);
  }
  log_.note(
      Severity::kWarning, "delivery_failed",
      {{"message", delivery.message_id}, {"recipient", delivery.recipient}, {"error", published.error().message()}});
  retry(delivery, published.error().message());
}

template <typename Changes>
void Rounds::keep_failing(const Changes& changes) {
  for (const Change& change : changes) {
    if (change.is_retry) retries_.keep_failing(change.delivery.recipient, change.delivery.next_at_ms);
  }
}

void Rounds::publish(Plan& plan) {
  for (const Change& change :
       plan.changes) {  // after the commit: a pending delivery without its file would count as delivered
    if (change.state != DeliveryState::kDead) continue;
    mailroom_.unstage(change.delivery);
    bodies_.release(stamp_of(change.delivery));
  }
  for (const Delivery& delivery : plan.retried) publish_one(delivery);
  if (plan.has_more_retries) {  // older than new messages
    for (const Delivery& delivery : plan.retried) retries_.keep_failing(delivery.recipient, now_ms());
  }
  keep_failing(plan.changes);  // so are those that were not recorded when retries were planned
  if (news_.is_awaited()) keep_failing(news_.changes());
  for (const Restaged& restaged : plan.restaged) publish_one(restaged.delivery);
  for (Outgoing& outgoing : plan.messages) {
    for (const Delivery& delivery : outgoing.deliveries) {
      if (delivery.state != DeliveryState::kPending) continue;
      if (!outgoing.unsynced.empty()) bodies_.add(stamp_of(delivery));
      if (outgoing.is_arrival) arrivals_.add(std::move(outgoing.row), delivery);
      publish_one(delivery);
    }
  }
  if (clock_.monotonic_ns() >= dirs_until_ns_) {
    mailroom_.forget_dirs();
    dirs_until_ns_ = clock_.monotonic_ns() + kDirsNs;
  }
  asked_ = syncer_.ask(std::move(plan.filings));
}

void Rounds::collect_fresh(Wait wait) {
  for (FreshOutcome& one : fresh_.collect(wait)) {
    if (!has_news()) news_.start_waiting();
    if (one.fate != Fate::kGone && one.delivery.wants_receipt) news_.note_awaited();
    switch (one.fate) {
      case Fate::kDelivered:
        news_.hurry();
        bodies_.release(stamp_of(one.delivery));
        news_.add({std::move(one.delivery)});
        break;
      case Fate::kRead:
        news_.add(
            {.delivery = std::move(one.delivery), .state = DeliveryState::kRead, .error = "", .is_read_at_once = true});
        break;
      case Fate::kGone: bodies_.release(one.stamp); break;
      case Fate::kFailed: retry(std::move(one.delivery), one.synced.error().message()); break;
    }
  }
}

// Nothing was recorded: everything is put back, and is tried again after a while.
void Rounds::abandon(Plan plan, const Error& why) {
  plan.transaction.reset();
  to_bury_.clear();
  routed_.want();
  for (const Outgoing& outgoing : plan.messages) {
    for (const Delivery& delivery : outgoing.deliveries) withdraw(delivery);
  }
  for (const Restaged& restaged : plan.restaged) withdraw(restaged.delivery);
  if (is_doubtful_ && !plan.supervision.is_empty()) lives_.note_doubt();
  is_doubtful_ = false;
  watcher_->put_back(plan.candidates);
  news_.put_back(std::move(plan.changes));
  registry_.put_back(plan.agents);
  if (!plan.located.empty()) news_.inbox_checks()[plan.located_in] = 0;
  waiting_.add_all(std::move(plan.released));
  operations_wanted_ = operations_wanted_ || !plan.operations.empty();
  trials_.note_failure(plan, why, ledger_->engine().is_lost());
  if (plan.is_trial) {  // everything else goes on meanwhile
    std::int64_t wait_ms = backoff_ms(trials_.failures(), random_());
    trials_.pause_until(clock_.monotonic_ns() + wait_ms * 1'000'000);
    log_.note(Severity::kWarning, "trial_failed", {{"error", why.message()}});
    return;
  }
  std::int64_t wait_ms = backoff_ms(failures_++, random_());
  paused_until_ns_ = clock_.monotonic_ns() + wait_ms * 1'000'000;
  upkeep_.note_failure(why, failures_);
  log_.note(Severity::kError, "round_failed", {{"error", why.message()}, {"retry_ms", wait_ms}});
}

}  // namespace warren::relay
