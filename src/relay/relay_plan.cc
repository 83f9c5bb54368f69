// Planning for files found in outboxes.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "crypto/digest.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/names.h"
#include "relay/rounds.h"

namespace warren::relay {
namespace {

constexpr std::size_t kRoundFiles = 256;
constexpr std::size_t kRoundDeliveries = 4096;  // a broadcast counts once for each recipient
constexpr std::int64_t kTouchUs = 1'000'000;    // how exactly last_seen_at is kept
constexpr std::int64_t kMalformedNs = 5'000'000'000;

std::string_view first_word(std::string_view text) {
  while (!text.empty() && std::strchr(" \t\r\n", text.front()) != nullptr) text.remove_prefix(1);
  return text.substr(0, text.find_first_of(" \t\r\n"));
}

// Files that were not read have no checksum, but are still the same file.
bool is_same_file(const MessageRow& a, const MessageRow& b) {
  if (!a.checksum.empty() || !b.checksum.empty()) return a.checksum == b.checksum;
  return a.inode == b.inode && a.size == b.size && a.mtime_ns == b.mtime_ns;
}

bool is_regular(const Root& root, const Candidate& candidate) {
  Result<Fd> outbox = root.open_outbox(candidate.agent);
  struct stat info {};
  return outbox.ok() && ::fstatat(outbox->get(), candidate.file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(info.st_mode);
}

bool is_answered(DeliveryState state) { return state == DeliveryState::kAcked || state == DeliveryState::kNacked; }

bool is_for_agents(std::string_view kind) {
  return kind == "message" || kind == "ack" || kind == "nack" || kind == "status";
}

}  // namespace

Status Rounds::plan_candidates(Plan& plan) {
  while (plan.candidates.size() < kRoundFiles && plan.delivery_count < kRoundDeliveries) {
    std::vector<Candidate> found = watcher_->next(std::min<std::size_t>(64, kRoundFiles - plan.candidates.size()));
    if (found.empty()) break;
    Status planned = begin_early(plan);
    plan.messages.reserve(plan.messages.size() + found.size());
    records_.expect(found);
    std::vector<Candidate> paused;  // by a large attachment; their senders' later messages wait too
    for (Candidate& candidate : found) {
      if (planned.ok() && !attachments_->is_waiting(candidate.agent)) planned = plan_candidate(plan, candidate);
      (attachments_->is_waiting(candidate.agent) ? paused : plan.candidates).push_back(std::move(candidate));
    }
    watcher_->pause(paused);
    WARREN_TRY(std::move(planned));
  }
  return Ok{};
}

// In SQLite each query outside of a transaction takes and drops locks.
Status Rounds::begin_early(Plan& plan) {
  if (plan.transaction || ledger_->homes() != nullptr) return Ok{};
  auto transaction = WARREN_TRY(ledger_->begin());
  plan.transaction.emplace(std::move(transaction));
  return Ok{};
}

// An error means a shortage, not a bad file. It fails the round: were only this file put off, later ones of its sender
// would overtake it.
Status Rounds::plan_candidate(Plan& plan, const Candidate& candidate) {
  std::string relative = fmt::format("{}/outbox/{}", candidate.agent, candidate.file);
  Outgoing outgoing;
  MessageRow& row = outgoing.row;
  row.id = make_message_id(candidate.agent, stem_of(candidate.file));
  Result<ReadFile> read = read_below(root_.agents(), relative, config_.message_bytes_max);
  if (!read.ok() && read.error().code() == Code::kTooLarge) {
    std::optional<MessageRow> known = WARREN_TRY(records_.find_message(row.id));
    if (known) read = read_below(root_.agents(), relative, records_.bytes_max_of(*known));
  }
  row.agent = candidate.agent;
  row.direction = "outbox";
  row.path = archive_path(candidate.agent, candidate.file);
  row.status = "processing";
  row.discovered_at_us = clock_.now_us();
  outgoing.discovered_ns = candidate.first_seen_ns;
  if (plan.ids.contains(row.id)) return Ok{};  // found twice: by an event and by a scan
  if (!read.ok()) {
    if (read.error().code() == Code::kNotFound) return Ok{};  // taken before, or taken back by its sender
    if (is_shortage(read.error())) return read.error();
    bool is_disk = read.error().code() == Code::kIo && is_regular(root_, candidate);  // and not the file: a socket, say
    if (read.error().code() == Code::kBusy) watcher_->look_again(candidate);
    else if (is_disk) look_again(candidate, read.error());
    else return plan_unreadable(plan, std::move(outgoing), candidate, read.error());
    return Ok{};
  }
  if (std::optional<Owner> owner = root_.find_owner(candidate.agent)) {
    bool is_own = read->facts.uid == owner->uid && read->facts.links == 1;  // not a link to a file of somebody else
    if (!is_own) return plan_unreadable(plan, std::move(outgoing), candidate, Error(Code::kDenied, "not its own file"));
  }
  Sighting seen{read->facts.size, read->facts.mtime_ns};
  if (!candidate.is_complete && seen != candidate.seen) {  // it is being written
    watcher_->look_again(candidate);
    return Ok{};
  }
  row.size = read->facts.size;
  row.mtime_ns = read->facts.mtime_ns;
  row.inode = read->facts.inode;
  row.checksum = sha256_hex(as_bytes(read->content));
  if (WARREN_TRY(is_known(plan, outgoing, candidate))) return Ok{};
  Result<Message> message = parse_message(read->content);
  if (!message.ok()) {
    bool may_grow = !candidate.is_complete && clock_.monotonic_ns() - candidate.first_seen_ns < kMalformedNs;
    if (may_grow) watcher_->look_again(candidate);
    else refuse(plan, std::move(outgoing), message.error());
    return Ok{};
  }
  outgoing.message = std::move(message).take_value();
  Result<Readiness> ready = courier_.take(outgoing.message, candidate.agent);
  if (ready.ok() && *ready == Readiness::kReady) {
    ready = courier_.bring(outgoing.message, candidate.agent, candidate.agent);
  }
  if (!ready.ok()) {
    if (is_shortage(ready.error())) return ready.error();
    if (ready.error().code() == Code::kIo) look_again(candidate, ready.error());
    else refuse(plan, std::move(outgoing), ready.error());
    return Ok{};
  }
  if (*ready == Readiness::kWaits) return Ok{};
  note_clock(candidate);
  plan_message(plan, std::move(outgoing));
  return Ok{};
}

// The same id with the same bytes is the same message, found again after a crash; with other bytes it is a mistake,
// which is reported to its sender.
Result<bool> Rounds::is_known(Plan& plan, const Outgoing& outgoing, const Candidate& candidate) {
  std::optional<MessageRow> known = WARREN_TRY(records_.find_message(outgoing.row.id));
  if (!known) return false;
  if (is_same_file(*known, outgoing.row)) {
    plan.filings.push_back({candidate.agent, candidate.file, known->path});
    return true;
  }
  std::string mark =
      fmt::format(".conflict-{}", outgoing.row.checksum.empty()
                                      ? fmt::format("{:x}-{:x}", outgoing.row.inode, outgoing.row.mtime_ns)
                                      : outgoing.row.checksum.substr(0, 16));
  plan.filings.push_back({candidate.agent, candidate.file, outgoing.row.path + mark});
  std::string id = outgoing.row.id + mark;
  std::optional<MessageRow> reported = WARREN_TRY(records_.find_message(id));
  bool is_reported = reported || plan.ids.contains(id);
  if (is_reported) return true;
  log_.audit("conflict", {{"message", outgoing.row.id}});
  notices_.nack(plan, candidate.agent, outgoing.row.id,
                Error(Code::kConflict, "the file name was already used by another message; this one was not sent"));
  Outgoing refused = outgoing;  // recorded under its own name: reported once, even if we are killed before it is filed
  refused.row.id = id;
  refused.row.path += mark;
  refused.row.status = "completed";
  refused.row.error = "the file name was already used by another message";
  plan.ids.insert(std::move(id));
  plan.messages.push_back(std::move(refused));
  return true;
}

void Rounds::look_again(const Candidate& candidate, const Error& why) {
  log_.note(Severity::kError, "read_failed", {{"agent", candidate.agent}, {"error", why.message()}});
  watcher_->look_again(candidate, Watcher::Delay::kGrowing);
}

// A file that is too large, or is strange: a link, a pipe, or one we may not open. It is recorded and answered like any
// message that is refused, and moved to the archive after the commit, as it is.
Status Rounds::plan_unreadable(Plan& plan, Outgoing outgoing, const Candidate& candidate, const Error& why) {
  Result<Fd> outbox = root_.open_outbox(candidate.agent);
  struct stat info {};
  bool is_there = outbox.ok() && ::fstatat(outbox->get(), candidate.file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there) return Ok{};
  bool is_large = why.code() == Code::kTooLarge;
  MessageRow& row = outgoing.row;
  row.size = static_cast<std::uint64_t>(info.st_size);
  row.mtime_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
  row.inode = info.st_ino;
  if (!is_large) row.path += ".strange";
  if (S_ISDIR(info.st_mode)) {  // not something that is sent; it may have anything in it
    log_.audit("strange_file", {{"agent", candidate.agent}, {"file", candidate.file}, {"error", why.message()}});
    return Ok{};
  }
  if (WARREN_TRY(is_known(plan, outgoing, candidate))) return Ok{};
  if (is_large) {
    refuse(plan, std::move(outgoing), why);
    return Ok{};
  }
  log_.audit("strange_file", {{"agent", candidate.agent}, {"file", candidate.file}, {"error", why.message()}});
  Error refused(
      Code::kDenied,
      fmt::format("only regular files that the relay may read, and that belong to the sender alone, are accepted; it "
                  "was moved to {}",
                  quote(row.path)));
  refuse(plan, std::move(outgoing), refused);
  return Ok{};
}

void Rounds::note_clock(const Candidate& candidate) {
  std::int64_t sent = timestamp_of(candidate.file).value_or(0);
  std::int64_t& newest = newest_sent_ns_[candidate.agent];
  if (sent < newest) {
    log_.note(Severity::kWarning, "clock_went_back", {{"agent", candidate.agent}, {"file", candidate.file}});
  }
  newest = sent;
}

void Rounds::plan_message(Plan& plan, Outgoing outgoing) {
  MessageRow& row = outgoing.row;
  row.type = outgoing.message.kind;
  row.target = outgoing.message.to;
  Status genuine = lives_.check_token(outgoing);
  if (!genuine.ok()) return refuse(plan, std::move(outgoing), genuine.error());
  registry_.note_active(row.agent);
  std::int64_t& touched_us = touched_us_[row.agent];
  if (std::abs(row.discovered_at_us - touched_us) > kTouchUs) {
    plan.seen.insert(row.agent);
    touched_us = row.discovered_at_us;
  }
  const AgentRow* sender = router_.find_agent(row.agent);
  if (sender != nullptr && sender->status == "inactive" && row.type != "status" &&
      !supervisor_.has_ended(row.agent)) {  // an agent that sends is active
    AgentRow agent = *sender;
    agent.status = "active";
    router_.put_agent(agent);
    waiting_.add(agent.name);
    plan.agents.push_back(std::move(agent));
  }
  Status planned = row.target == kOrchestrator ? plan_request(plan, outgoing) : plan_routes(plan, outgoing);
  if (!planned.ok()) return refuse(plan, std::move(outgoing), planned.error());
  if (outgoing.deliveries.empty()) row.status = "completed";
  plan.delivery_count += outgoing.deliveries.size();
  plan.filings.push_back({row.agent, std::string(split_parent(row.path).name), row.path});
  plan.ids.insert(row.id);
  plan.messages.push_back(std::move(outgoing));
}

// Recorded as failed, reported to its sender, and kept as a dead letter.
void Rounds::refuse(Plan& plan, Outgoing outgoing, const Error& why) {
  outgoing.row.status = "failed";
  outgoing.row.error = why.message();
  outgoing.deliveries.clear();
  notices_.nack(plan, outgoing.row.agent, outgoing.row.id, why);
  log_.note(Severity::kWarning, "refused", {{"message", outgoing.row.id}, {"error", why.message()}});
  std::string_view stem = std::string_view(outgoing.row.id).substr(outgoing.row.id.find('/') + 1);
  plan.filings.push_back({outgoing.row.agent, fmt::format("{}.msg", stem), outgoing.row.path});
  plan.ids.insert(outgoing.row.id);
  plan.messages.push_back(std::move(outgoing));
}

Status Rounds::plan_routes(Plan& plan, Outgoing& outgoing) {
  const MessageRow& row = outgoing.row;
  if (!is_for_agents(row.type)) {
    return Error(Code::kUnsupported, fmt::format("KIND {} cannot be sent to agents", quote(row.type)));
  }
  std::vector<Route> routes = WARREN_TRY(router_.resolve(row.target, row.agent));
  if ((row.type == "ack" || row.type == "nack") && !outgoing.message.reference.empty()) {
    WARREN_TRY(plan_ack(plan, outgoing));
  }
  for (Route& route : routes) {
    bool must_wait = waiting_.contains(route.recipient);  // older messages go first
    bool must_be_held = row.target == kLead && waiting_.contains(std::string(kLead));
    if (must_be_held) {
      route = {std::string(kLead), DeliveryState::kHeld};
    } else if (route.state == DeliveryState::kStored || route.state == DeliveryState::kHeld) {
      bool is_held = route.state == DeliveryState::kHeld;
      Message notice{.kind = "status", .reference = row.id, .others = {{"STATE", is_held ? "held" : "stored"}}};
      notice.body = is_held ? "there is no lead yet\n" : fmt::format("{} is inactive\n", quote(route.recipient));
      notices_.notify(plan, row.agent, std::move(notice));
    } else if (must_wait) {
      route.state = DeliveryState::kStored;
    }
    Delivery delivery;
    delivery.message_id = row.id;
    delivery.recipient = std::move(route.recipient);
    delivery.state = route.state;
    delivery.wants_receipt = outgoing.message.wants_receipt;
    delivery.deadline_ms = now_ms() + config_.deadline.count();
    outgoing.deliveries.push_back(std::move(delivery));
  }
  return Ok{};
}

Status Rounds::plan_request(Plan& plan, Outgoing& outgoing) {
  const std::string& kind = outgoing.row.type;
  if (kind == "subscribe" || kind == "unsubscribe") return plan_subscription(plan, outgoing);
  if (kind == "ack" || kind == "nack") return plan_ack(plan, outgoing);
  if (kind == "status") return plan_status(plan, outgoing);
  if (kind == "spawn") return lives_.plan_spawn(plan, outgoing);
  if (kind == "release") return lives_.plan_release(plan, outgoing);
  if (kind == "continuity") return continuity_.plan(plan, outgoing);
  return Error(Code::kUnsupported, fmt::format("this relay does not support KIND {}", quote(kind)));
}

Status Rounds::plan_subscription(Plan& plan, const Outgoing& outgoing) {
  const std::string* header = outgoing.message.find("CHANNEL");
  std::string_view channel = header != nullptr ? std::string_view(*header) : first_word(outgoing.message.body);
  if (channel.starts_with('#')) channel.remove_prefix(1);
  WARREN_TRY(check_channel_name(channel));
  plan.subscriptions.push_back({std::string(channel), outgoing.row.agent, outgoing.row.type == "subscribe"});
  const Subscription& made = plan.subscriptions.back();
  made.is_on ? router_.subscribe(made.channel, made.agent) : router_.unsubscribe(made.channel, made.agent);
  return Ok{};
}

Status Rounds::plan_status(Plan& plan, const Outgoing& outgoing) {
  std::string_view word = first_word(outgoing.message.body);
  if (word != "active" && word != "inactive") {
    return Error(Code::kInvalid, fmt::format("the status must be active or inactive, not {}", quote(word)));
  }
  const AgentRow* known = router_.find_agent(outgoing.row.agent);
  if (known == nullptr) return Error(Code::kNotFound, "the agent is not registered");
  AgentRow agent = *known;
  if (agent.status != "active" && word == "active") waiting_.add(agent.name);
  agent.status = word;
  router_.put_agent(agent);
  plan.agents.push_back(std::move(agent));
  return Ok{};
}

// REFERENCE is the name of a file that was in the sender's inbox, or a message's id. The first answer counts.
Status Rounds::plan_ack(Plan& plan, const Outgoing& outgoing) {
  const std::string& reference = outgoing.message.reference;
  const std::string& agent = outgoing.row.agent;
  if (reference.empty()) {
    return Error(Code::kInvalid,
                 fmt::format("KIND {} needs the header REFERENCE, with the file's name or the message's ID",
                             quote(outgoing.row.type)));
  }
  std::string file = reference.ends_with(".msg") ? reference : reference + ".msg";
  std::optional<Delivery> found = WARREN_TRY(
      reference.find('/') == reference.npos ? records_.find_in_inbox(agent, file) : records_.find_to(reference, agent));
  for (const Change& earlier : plan.acks) {
    if (found && earlier.delivery.id == found->id) found->state = earlier.state;
  }
  bool is_received = found && (found->state == DeliveryState::kPending || found->state == DeliveryState::kDelivered ||
                               found->state == DeliveryState::kRead || is_answered(found->state));
  if (!is_received) return Error(Code::kNotFound, fmt::format("you have received no message {}", quote(reference)));
  DeliveryState answer = outgoing.row.type == "ack" ? DeliveryState::kAcked : DeliveryState::kNacked;
  if (found->state == answer) return Ok{};  // answered again, as after a crash
  if (is_answered(found->state)) {
    return Error(Code::kConflict, fmt::format("message {} is {} already; the first answer counts", quote(reference),
                                              name_of(found->state)));
  }
  if (std::optional<Delivery> fresh = fresh_.take(found->recipient, found->inbox_name)) {
    bodies_.release(stamp_of(*fresh));
    news_.add({std::move(*fresh)});  // delivered before it is acknowledged
  }
  bool is_ack = answer == DeliveryState::kAcked;
  std::string reason = is_ack ? "" : std::string(outgoing.message.body.substr(0, 1024));
  if (found->wants_receipt && outgoing.row.target == kOrchestrator) {
    notices_.report(plan, *found, name_of(answer), reason);
  }
  plan.acks.push_back({*found, answer, reason});
  return Ok{};
}

// Urgent messages go first; of one sender, those of the same priority stay in order. Names sort as messages go.
void Rounds::assign_names(Plan& plan) {
  auto is_before = [](const Outgoing& a, const Outgoing& b) { return a.message.priority < b.message.priority; };
  bool is_sorted = std::is_sorted(plan.messages.begin(), plan.messages.end(), is_before);
  if (!is_sorted) std::stable_sort(plan.messages.begin(), plan.messages.end(), is_before);
  for (Outgoing& outgoing : plan.messages) {
    if (outgoing.deliveries.empty()) continue;
    std::int64_t stamp = stamps_.next_ns();
    if (outgoing.row.direction == "inbox") {
      outgoing.row.id = make_message_id(kOrchestrator, make_message_stem(stamp, random_()));
      outgoing.deliveries.front().message_id = outgoing.row.id;
    }
    std::string name = inbox_name(outgoing.row.id, stamp);
    for (Delivery& delivery : outgoing.deliveries) {
      delivery.inbox_name = name;
      delivery.discovered_ns = outgoing.discovered_ns;
    }
    repair_.recognise(outgoing);
    if (outgoing.row.direction == "inbox") {
      outgoing.row.path = fmt::format("agents/{}/inbox/{}", outgoing.row.target, name);
    }
  }
}

}  // namespace warren::relay
