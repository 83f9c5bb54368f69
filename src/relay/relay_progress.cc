// Planning for everything but new files: changes of earlier deliveries, deliveries that waited, requests.
#include <algorithm>
#include <unordered_map>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "crypto/digest.h"
#include "os/files/dir_reader.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/names.h"
#include "relay/rounds.h"
#include "relay/upkeep/sweeper.h"

namespace warren::relay {
namespace {

constexpr std::size_t kPage = 256;
constexpr std::size_t kInboxPage = 1024;

// Names alone: there may be many files. The oldest is last.
Result<std::vector<std::string>> list_messages(int inbox) {
  std::vector<std::string> names;
  DirReader reader = WARREN_TRY(DirReader::open(inbox));
  while (const DirReader::Entry* entry = WARREN_TRY(reader.next())) {
    if (is_message_file(entry->name)) names.emplace_back(entry->name);
  }
  std::ranges::sort(names, std::ranges::greater());
  return names;
}

}  // namespace

Status Rounds::plan_changes(Plan& plan, DeliveryNews::Share part) {
  std::vector<AgentRow> agents = registry_.take_changes();
  plan.agents.insert(plan.agents.end(), agents.begin(), agents.end());
  plan.changes = news_.take(part, plan.messages.size());
  for (const Change& change : plan.changes) {
    if (change.is_retry) continue;
    if (change.state == DeliveryState::kDead) {
      std::string sender = change.delivery.message_id.substr(0, change.delivery.message_id.find('/'));
      notices_.nack(plan, sender, change.delivery.message_id, Error(Code::kUnavailable, change.error));
    } else if (change.delivery.wants_receipt) {
      if (change.is_read_at_once) notices_.report(plan, change.delivery, name_of(DeliveryState::kDelivered), "");
      notices_.report(plan, change.delivery, name_of(change.state), change.error);
    }
  }
  if (!news_.changes().empty()) return Ok{};  // they may be about the same deliveries as files that left inboxes
  WARREN_TRY(plan_left(plan));
  return check_inbox(plan);
}

// A file that was delivered just now need not be looked up in the ledger.
void Rounds::note_left(std::vector<LeftInbox> left) {
  if (left.empty()) return;
  if (!has_news()) news_.start_waiting();
  for (LeftInbox& one : left) {
    registry_.note_active(one.agent);
    std::optional<Delivery> fresh = fresh_.take_read(one.agent, one.file);
    if (!fresh) {
      const Arrival* arrival = arrivals_.find_in_inbox(one.agent, one.file);
      bool can_wait = arrival != nullptr && !arrival->delivery.wants_receipt;  // unknown if it was entered
      if (!can_wait) news_.note_awaited();
      news_.add_left(std::move(one));
      continue;
    }
    if (fresh->wants_receipt) news_.note_awaited();
    news_.add({.delivery = std::move(*fresh), .state = DeliveryState::kRead, .error = "", .is_read_at_once = true});
  }
}

// A file that left an inbox was read. Its delivery may still be pending, or delivered by a change of this very round.
Status Rounds::plan_left(Plan& plan) {
  const std::vector<LeftInbox>& left = news_.left();
  std::size_t count = news_.count_left_to_take();
  std::unordered_map<std::string, std::size_t> delivered;
  for (std::size_t i = 0; i < plan.changes.size(); ++i) {
    const Change& change = plan.changes[i];
    if (change.state == DeliveryState::kRead) plan.read.insert(change.delivery.id);  // of an abandoned round
    bool is_delivered = !change.is_retry && change.state == DeliveryState::kDelivered;
    if (is_delivered) delivered.emplace(staged_name(change.delivery.inbox_name, change.delivery.recipient), i);
  }
  records_.expect(left, count);
  std::size_t looked = 0;
  Status asked = Ok{};
  for (; looked < count; ++looked) {
    const LeftInbox& one = left[looked];
    auto just_now = delivered.find(staged_name(one.file, one.agent));
    if (just_now != delivered.end()) {
      Change& change = plan.changes[just_now->second];
      if (!plan.read.insert(change.delivery.id).second) continue;
      if (change.delivery.wants_receipt) notices_.report(plan, change.delivery, name_of(DeliveryState::kRead), "");
      change.state = DeliveryState::kRead;
      change.is_read_at_once = true;
      continue;
    }
    if (fresh_.contains(one.agent, one.file)) continue;  // noticed when its inbox is synced
    Result<std::optional<Delivery>> answer = records_.find_in_inbox(one.agent, one.file);
    if (!answer.ok()) {
      asked = std::move(answer).take_error();
      break;
    }
    std::optional<Delivery>& found = *answer;
    if (!found) continue;
    if (found->state != DeliveryState::kDelivered && found->state != DeliveryState::kPending) continue;
    if (mailroom_.is_staged(*found) || !plan.read.insert(found->id).second)
      continue;  // reported by an event and by a check
    bool is_at_once = found->state == DeliveryState::kPending;
    if (is_at_once) fresh_.add_read(*found);
    if (found->wants_receipt && is_at_once) notices_.report(plan, *found, name_of(DeliveryState::kDelivered), "");
    if (found->wants_receipt) notices_.report(plan, *found, name_of(DeliveryState::kRead), "");
    plan.changes.push_back(
        {.delivery = std::move(*found), .state = DeliveryState::kRead, .error = "", .is_read_at_once = is_at_once});
  }
  news_.forget_left(looked);  // these are in the plan
  return asked;
}

// One page of one inbox whose events may have been lost: a delivered message whose file is gone was read, if it was in
// this inbox. Nobody has read what was put into another one, which was moved away with the agent's directory. Where it
// was put is not known on a filesystem without times of creation, and if relays share the ledger: then it was read.
Status Rounds::check_inbox(Plan& plan) {
  if (!news_.has_inbox_checks() || !to_bury_.empty()) return Ok{};  // what is being buried was not read
  auto check = news_.inbox_checks().begin();
  auto page = WARREN_TRY(ledger_->in_state(check->first, DeliveryState::kDelivered, check->second, kInboxPage));
  auto inboxes = WARREN_TRY(ledger_->list_inboxes(check->first, check->second, kInboxPage));
  Result<Fd> inbox = root_.open_inbox(check->first);
  if (!inbox.ok() || page.empty()) {
    news_.inbox_checks().erase(check);
    return Ok{};
  }
  check->second = page.back().id;
  std::int64_t born_ns = birth_of_inbox_ns(inbox->get());
  for (Delivery& delivery : page) {
    std::int64_t known_ns = inboxes[delivery.id];
    bool is_elsewhere = known_ns != 0 && born_ns != 0 && known_ns != born_ns;
    if (::faccessat(inbox->get(), delivery.inbox_name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
      bool is_news = born_ns != known_ns && ledger_->homes() == nullptr;
      if (!is_news) continue;
      plan.located.push_back({delivery.id, born_ns});
      plan.located_in = delivery.recipient;
    } else if (is_elsewhere) {
      bury_unread(std::move(delivery));
    } else {
      news_.add_left({delivery.recipient, delivery.inbox_name});
    }
  }
  return plan_left(plan);
}

void Rounds::bury_unread(Delivery delivery) {
  std::string why =
      fmt::format("the inbox of agent {} was moved away or replaced before it was read", quote(delivery.recipient));
  news_.note_awaited();  // its sender expects a nack
  news_.add({.delivery = std::move(delivery), .state = DeliveryState::kDead, .error = std::move(why)});
}

Result<Readiness> Rounds::restage(Plan& plan, Delivery delivery) {
  Message message = WARREN_TRY(records_.load(delivery.message_id));
  if (WARREN_TRY(courier_.bring_again(plan, delivery, message)) == Readiness::kWaits) return Readiness::kWaits;
  std::string sender = delivery.message_id.substr(0, delivery.message_id.find('/'));
  delivery.state = DeliveryState::kPending;
  delivery.deadline_ms = now_ms() + config_.deadline.count();
  std::string content = render(message, sender, delivery.message_id);
  if (router_.is_remote(delivery.recipient)) {
    delivery.home = router_.find_agent(delivery.recipient)->home;
    plan.rerouted.push_back({std::move(delivery), std::move(content)});
    return Readiness::kReady;
  }
  if (ledger_->homes() != nullptr) delivery.inbox_name = inbox_name(delivery.message_id, stamps_.next_ns());
  plan.restaged.push_back({std::move(delivery), std::move(content)});
  return Readiness::kReady;
}

// An error means a shortage, not a bad message.
Result<Readiness> Rounds::restage_or_bury(Plan& plan, const Delivery& delivery, const std::string& recipient) {
  Delivery now = delivery;
  now.recipient = recipient;
  Result<Readiness> restaged = restage(plan, std::move(now));
  if (restaged.ok()) return restaged;
  const Error& why = restaged.error();
  if (ledger_->engine().is_lost() || is_shortage(why) || why.code() == Code::kIo) return why;
  plan.acks.push_back({delivery, DeliveryState::kDead, why.message()});
  notices_.nack(plan, delivery.message_id.substr(0, delivery.message_id.find('/')), delivery.message_id, why);
  return Readiness::kReady;
}

// A delivery for the lead names it only once there is one.
std::string Rounds::agent_for(const std::string& recipient) const {
  return recipient == kLead && !router_.find_lead().empty() ? router_.find_lead() : recipient;
}

// Deliveries that waited for an agent to be active, or for somebody to lead. In pages: there may be many.
Status Rounds::plan_waiting(Plan& plan) {
  plan.released = waiting_.names();
  for (const std::string& name : plan.released) {
    if (waiting_.is_paused(name)) continue;
    std::string recipient = agent_for(name);
    const AgentRow* agent = router_.find_agent(recipient);
    std::size_t found = 0;
    if (agent != nullptr && agent->status == "active" && !router_.is_remote(*agent)) {
      auto stored = WARREN_TRY(ledger_->in_state(name, DeliveryState::kStored, 0, kPage));
      auto held = WARREN_TRY(ledger_->in_state(name, DeliveryState::kHeld, 0, kPage));
      found = std::max(stored.size(), held.size());
      stored.insert(stored.end(), held.begin(), held.end());
      for (const Delivery& delivery : stored) {
        if (WARREN_TRY(restage_or_bury(plan, delivery, recipient)) == Readiness::kReady) continue;
        waiting_.pause(name);
        found = kPage;  // those after it wait with it
        break;
      }
    }
    if (found < kPage) waiting_.remove(name);
  }
  return Ok{};
}

Status Rounds::plan_retries(Plan& plan) {
  if (!retries_.is_due()) return Ok{};
  std::int64_t now = now_ms();
  plan.retried = WARREN_TRY(ledger_->due({.now_ms = now, .attempts_min = 1, .limit = kPage}));
  plan.has_more_retries = plan.retried.size() == kPage;
  std::unordered_set<std::int64_t> moved;  // since the ledger was read
  for (const Change& change : news_.changes()) moved.insert(change.delivery.id);
  std::erase_if(plan.retried, [&](const Delivery& delivery) {
    return moved.contains(delivery.id) || plan.read.contains(delivery.id) ||
           fresh_.contains(delivery.recipient, delivery.inbox_name);
  });
  for (const Delivery& delivery : plan.retried) retries_.forget(delivery.recipient);
  std::int64_t next = WARREN_TRY(ledger_->next_due_ms(now))
  .value_or(INT64_MAX);
  for (const Change& change : news_.changes()) {
    if (change.is_retry) next = std::min(next, std::max(now, change.delivery.next_at_ms));
  }
  if (plan.has_more_retries) next = now;
  retries_.set_next(next);
  return Ok{};
}

// Those that wait for something stay in the ledger, however many there are: so each page is read from where the last
// one ended.
Status Rounds::plan_operations(Plan& plan) {
  if (!operations_wanted_) return Ok{};
  bool has_more = true;
  for (std::int64_t after = 0; has_more && plan.operations.size() < kPage;) {
    std::vector<Operation> page = WARREN_TRY(ledger_->open_operations(after, kPage));
    has_more = page.size() == kPage;
    if (has_more) after = page.back().id;
    for (const Operation& operation : page) {
      if (!plan.is_trial || trials_.is_tried(operation.id)) WARREN_TRY(try_operation(plan, operation));
    }
  }
  bool is_unfinished = std::exchange(has_unfinished_removal_, false);
  if (!plan.is_trial) operations_wanted_ = has_more || is_unfinished;
  return Ok{};
}

// An error means a shortage.
Status Rounds::try_operation(Plan& plan, const Operation& operation) {
  if (const std::string* known = trials_.find_given_up(operation.id)) {
    give_up(plan, operation, *known);
    return Ok{};
  }
  if (operation.type == "spawn" && !lives_.is_asked_here(operation)) return Ok{};
  Result<Readiness> done = plan_operation(plan, operation);
  if (done.ok() && *done == Readiness::kWaits) return Ok{};
  if (!done.ok() && (is_shortage(done.error()) || ledger_->engine().is_lost())) return done.error();
  if (done.ok()) plan.operations.push_back({operation.id, ""});
  else give_up(plan, operation, done.error().message());
  return Ok{};
}

void Rounds::give_up(Plan& plan, const Operation& operation, const std::string& why) {
  log_.note(Severity::kWarning, "operation_failed",
            {{"type", operation.type}, {"payload", operation.payload}, {"error", why}});
  if (operation.type == "spawn") lives_.give_up_start(plan, operation, Error(Code::kInternal, why));
  plan.operations.push_back({operation.id, why});
}

Result<Readiness> Rounds::plan_operation(Plan& plan, const Operation& operation) {
  if (operation.type == "spawn") {
    WARREN_TRY(lives_.plan_start(plan, operation));
    return Readiness::kReady;
  }
  Json payload = WARREN_TRY(parse_json(operation.payload));
  if (operation.type == "collect") {
    attachments_->start_sweep(payload == Json{{"all", true}} ? 0 : config_.attachment_keep.count());
    return Readiness::kReady;
  }
  if (operation.type == "remove") return plan_removal(plan, text_in(payload, "agent"), text_in(payload, "directory"));
  if (operation.type == "release") {
    WARREN_TRY(lives_.plan_release_for(plan, payload));
    return Readiness::kReady;
  }
  if (operation.type == "carry") {
    std::string hash = text_in(payload, "attachment");
    if (!is_attachment_hash(hash)) return Error(Code::kInvalid, "the request names no attachment");
    return attachments_->publish_for_others(hash);
  }
  if (!payload.is_object() || !payload.contains("dead_letter") || !payload["dead_letter"].is_number_integer()) {
    return Error(Code::kInvalid, "the request names no dead letter");
  }
  return plan_letter(plan, operation, payload["dead_letter"].get<std::int64_t>());
}

void Rounds::bury_for_removal(Plan& plan, const Delivery& delivery) {
  Error why(Code::kNotFound, fmt::format("agent {} was removed", quote(delivery.recipient)));
  plan.acks.push_back({delivery, DeliveryState::kDead, why.message()});
  notices_.nack(plan, delivery.message_id.substr(0, delivery.message_id.find('/')), delivery.message_id, why);
}

// A file in the inbox of a removed agent was never read, whatever is recorded: an inbox that was moved away looks as if
// its files had been taken.
Status Rounds::bury_file(Plan& plan, const std::string& name, const std::string& file) {
  std::optional<Delivery> found = WARREN_TRY(records_.find_in_inbox(name, file));
  bool is_unread = found && (found->state == DeliveryState::kPending || found->state == DeliveryState::kDelivered ||
                             found->state == DeliveryState::kRead);
  if (!is_unread) return Ok{};
  auto is_reported = [&](const Change& change) { return change.delivery.id == found->id && !change.is_retry; };
  if (std::optional<Delivery> fresh = fresh_.take(name, file)) {
    bodies_.release(stamp_of(*fresh));
    news_.add({std::move(*fresh)});  // delivered before it is dead
  } else if (found->state == DeliveryState::kPending && std::ranges::none_of(news_.changes(), is_reported)) {
    bodies_.release(stamp_of(*found));  // it was to be tried again
  }
  plan.read.insert(found->id);  // plan_left() must not report it as read, nor plan_retries() try it again
  bury_for_removal(plan, *found);
  return Ok{};
}

// A page in each round; kWaits: there is more. The names are read once, so it does not matter what becomes of the
// directory meanwhile.
Result<Readiness> Rounds::bury_unread(Plan& plan, const std::string& name, const std::string& directory) {
  bool is_ours = directory.starts_with(kRemovedPrefix) && directory.find('/') == directory.npos;
  if (!is_ours)
    return Error(Code::kInvalid, fmt::format("{} is not the directory of a removed agent", quote(directory)));
  auto files = to_bury_.find(directory);
  if (files == to_bury_.end()) {
    Result<Fd> inbox = open_below(root_.dir(), fmt::format("tmp/{}/inbox", directory), O_RDONLY | O_DIRECTORY);
    if (!inbox.ok() && inbox.error().code() == Code::kNotFound) return Readiness::kReady;  // nothing is left to bury
    Fd dir = WARREN_TRY(std::move(inbox));
    std::vector<std::string> names = WARREN_TRY(list_messages(dir.get()));
    files = to_bury_.emplace(directory, std::move(names)).first;
  }
  Status buried = Ok{};
  for (std::size_t i = 0; i < kInboxPage && buried.ok() && !files->second.empty(); ++i) {
    buried = bury_file(plan, name, files->second.back());
    files->second.pop_back();
  }
  if (buried.ok() && !files->second.empty()) return Readiness::kWaits;
  to_bury_.erase(files);
  WARREN_TRY(std::move(buried));
  return Readiness::kReady;
}

// The agent's directory is gone: what waited for it becomes dead letters, so that the next agent of that name does not
// get it. `directory`: where it is in tmp/, if its unread messages are to become dead letters, too. A page in each
// round; kWaits: there is more.
Result<Readiness> Rounds::plan_removal(Plan& plan, const std::string& name, const std::string& directory) {
  WARREN_TRY(check_agent_name(name));
  mailroom_.forget_dirs();  // one of them may be its inbox, which was moved; from now on nothing is put into that
  if (!directory.empty() && WARREN_TRY(bury_unread(plan, name, directory)) == Readiness::kWaits) {
    has_unfinished_removal_ = true;
    return Readiness::kWaits;
  }
  registry_.add_all();
  const AgentRow* agent = router_.find_agent(name);
  if (agent == nullptr) return Error(Code::kNotFound, fmt::format("there is no agent {}", quote(name)));
  if (agent->status != "terminated") {
    return Error(Code::kConflict, fmt::format("agent {} has been registered again", quote(name)));
  }
  auto subscriptions =
      WARREN_TRY(ledger_->list_subscriptions());  // the router has forgotten those of an abandoned plan
  for (const auto& [channel, agents] : subscriptions) {
    if (!agents.contains(name)) continue;
    plan.subscriptions.push_back({channel, name, false});
    router_.unsubscribe(channel, name);
  }
  auto stored = WARREN_TRY(ledger_->in_state(name, DeliveryState::kStored, 0, kPage));
  for (const Delivery& delivery : stored) bury_for_removal(plan, delivery);
  if (stored.size() < kPage) return Readiness::kReady;
  has_unfinished_removal_ = true;
  return Readiness::kWaits;
}

Result<Readiness> Rounds::plan_letter(Plan& plan, const Operation& operation, std::int64_t id) {
  std::optional<DeadLetter> letter = WARREN_TRY(ledger_->find_dead(id));
  if (!letter) return ledger_->no_letter(id);
  bool is_closed =
      std::any_of(plan.closed.begin(), plan.closed.end(), [&](const auto& one) { return one.first == id; });
  if (is_closed) return Error(Code::kConflict, fmt::format("dead letter {} is closed", id));
  if (operation.type == "discard") {
    plan.closed.emplace_back(id, "discarded");
    return Readiness::kReady;
  }
  if (operation.type != "redeliver") return Error(Code::kUnsupported, "unknown operation");
  Readiness ready = WARREN_TRY(redeliver(plan, *letter));
  if (ready == Readiness::kReady) plan.closed.emplace_back(id, "redelivered");
  return ready;
}

// Redelivers to the recipient of the dead letter; a message without a recipient is routed again.
Result<Readiness> Rounds::redeliver(Plan& plan, const DeadLetter& letter) {
  if (!letter.recipient.empty()) {
    std::optional<Delivery> delivery = WARREN_TRY(records_.find_to(letter.message_id, letter.recipient));
    if (!delivery || delivery->state != DeliveryState::kDead) {
      return Error(Code::kNotFound, fmt::format("there is no failed delivery to {}", quote(letter.recipient)));
    }
    delivery->recipient = agent_for(letter.recipient);
    const AgentRow* agent = router_.find_agent(delivery->recipient);
    if (agent == nullptr || agent->status == "terminated") {
      return Error(Code::kNotFound, fmt::format("there is no agent {}", quote(delivery->recipient)));
    }
    return restage(plan, std::move(*delivery));
  }
  Message message = WARREN_TRY(records_.load(letter.message_id));
  std::string sender = letter.message_id.substr(0, letter.message_id.find('/'));
  if (WARREN_TRY(attachments_->check_or_fetch(message, "")) == Readiness::kWaits) return Readiness::kWaits;
  if (WARREN_TRY(courier_.bring(message, sender, "")) == Readiness::kWaits) return Readiness::kWaits;
  std::vector<Route> routes = WARREN_TRY(router_.resolve(message.to, sender));
  Outgoing outgoing;
  outgoing.row.id = letter.message_id;
  outgoing.row.agent = sender;
  outgoing.row.direction = "again";
  for (Route& route : routes) {
    Delivery delivery;
    delivery.message_id = letter.message_id;
    delivery.recipient = std::move(route.recipient);
    delivery.state = route.state;
    delivery.wants_receipt = message.wants_receipt;
    delivery.deadline_ms = now_ms() + config_.deadline.count();
    outgoing.deliveries.push_back(std::move(delivery));
  }
  outgoing.message = std::move(message);
  plan.messages.push_back(std::move(outgoing));
  return Readiness::kReady;
}

}  // namespace warren::relay
