#include "relay/spawn/lives.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "crypto/digest.h"
#include "os/error.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr int kSuperiorSteps = 256;

Result<std::string> make_token() {
  std::array<std::byte, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return system_error(errno, "get random bytes");
  }
  return hex_of(bytes);
}

std::string message_of(const Operation& operation) {
  Result<Json> payload = parse_json(operation.payload);
  return payload.ok() ? text_in(*payload, "message") : "";
}

// Text that every ledger accepts: bytes that are not UTF-8 are escaped.
std::string text_of(std::string_view bytes) {
  std::string quoted = quote(bytes);
  return quoted.substr(1, quoted.size() - 2);
}

Json meta_of(const Life& life) {
  Json json = {{"name", life.name},       {"state", name_of(life.state)},
               {"pid", life.process.pid}, {"started_at", life.started_at_us},
               {"spawner", life.spawner}, {"depth", life.depth},
               {"cli", life.cli},         {"working_dir", life.dir},
               {"life", life.number}};
  if (life.ended_at_us != 0) json["ended_at"] = life.ended_at_us;
  if (life.ended_at_us != 0) json["outcome"] = life.outcome;
  return json;
}

}  // namespace

Status Lives::recover(bool is_in_doubt) {
  ::signal(SIGCHLD, SIG_DFL);  // if ignored, as inherited from some parents, it would hide how children end
  std::vector<Life> lives = WARREN_TRY(ledger_.list_lives());
  for (const Life& life : lives) {
    if (life.state != LifeState::kAsked) router_.set_spawner(life.name, life.spawner);
  }
  if (is_in_doubt) supervisor_.reconcile(std::move(lives));
  else supervisor_.load(std::move(lives));
  return Ok{};
}

// The life as changed by this round, otherwise as recorded.
std::optional<Life> Lives::find_life(const Plan& plan, std::string_view name) const {
  const std::vector<Life>& planned = plan.supervision.lives;
  for (auto at = planned.rbegin(); at != planned.rend(); ++at) {
    if (at->name == name && at->state != LifeState::kAsked && at->state != LifeState::kFailed) return *at;
  }
  const Life* life = supervisor_.find(name);
  return life == nullptr ? std::nullopt : std::optional(*life);
}

Error Lives::denied(const Outgoing& outgoing, std::string why) {
  return denied(outgoing.row.id, outgoing.row.type, std::move(why));
}

Error Lives::denied(std::string_view message_id, std::string_view kind, std::string why) {
  log_.audit("denied", {{"message", message_id}, {"kind", kind}, {"error", why}});
  return {Code::kDenied, std::move(why)};
}

bool Lives::may_command(const std::string& agent, const std::string& name) const {
  return agent != name && (supervisor_.is_ancestor(agent, name) || router_.find_lead() == agent);
}

// A name stands for a mailbox: a program that runs under it reads the messages that others send there.
Status Lives::check_name_to_spawn(const Plan& plan, const std::string& name, const std::string& spawner) const {
  bool is_planned = std::any_of(plan.supervision.lives.begin(), plan.supervision.lives.end(), [&](const Life& life) {
    return life.name == name && life.state != LifeState::kFailed;
  });
  if (is_planned || supervisor_.is_asked(name) || supervisor_.has_process(name)) {
    return Error(Code::kExists, fmt::format("{} is already running", quote(name)));
  }
  bool leads = name == kLead || name == config_.lead;
  if (leads && supervisor_.depth_of(spawner) > 0) {
    return Error(Code::kDenied,
                 fmt::format("{} is the lead; an agent that was itself spawned cannot start it", quote(name)));
  }
  const AgentRow* agent = router_.find_agent(name);
  if (supervisor_.find(name) != nullptr) {
    if (may_command(spawner, name)) return Ok{};
    return Error(Code::kDenied,
                 fmt::format("{} was started by another agent; only an agent that may release it may start it again",
                             quote(name)));
  }
  if (agent == nullptr || agent->status == "terminated") return Ok{};
  return Error(Code::kExists, fmt::format("{} already exists and was not started by the relay", quote(name)));
}

Status Lives::check_spawn(const Plan& plan, const SpawnRequest& request, const std::string& spawner) const {
  WARREN_TRY(launcher_.check(request));
  WARREN_TRY(check_name_to_spawn(plan, request.name, spawner));
  return supervisor_.check_limits(spawner, plan.supervision.lives);
}

// Only records the life; the next round starts it.
Status Lives::plan_spawn(Plan& plan, const Outgoing& outgoing) {
  const MessageRow& row = outgoing.row;
  SpawnRequest request = WARREN_TRY(parse_spawn_request(outgoing.message.body));
  Status allowed = check_spawn(plan, request, row.agent);
  if (!allowed.ok() && allowed.error().code() == Code::kDenied) return denied(outgoing, allowed.error().message());
  WARREN_TRY(std::move(allowed));
  Life life;
  life.name = request.name;
  life.number = WARREN_TRY(ledger_.next_life(request.name));
  life.message_id = row.id;
  life.spawner = row.agent;
  life.depth = supervisor_.depth_of(row.agent) + 1;
  life.cli = request.cli;
  life.asked_at_us = clock_.now_us();
  plan.supervision.lives.push_back(std::move(life));
  plan.supervision.intents.push_back(dump_json({{"message", row.id}, {"name", request.name}}));
  return Ok{};
}

bool Lives::is_asked_here(const Operation& operation) const {
  return supervisor_.find_asked(message_of(operation)) != nullptr;
}

// Leaves the agent's process at its gate. The request is read again from the message, which has the bytes.
Result<Child> Lives::start_agent(Life& life) {
  Message message = WARREN_TRY(records_.load(life.message_id));
  SpawnRequest request = WARREN_TRY(parse_spawn_request(message.body));
  WARREN_TRY(launcher_.make_home(root_, request));
  registry_.add(request.name, clock_.now_us());
  std::string token = WARREN_TRY(make_token());
  std::int64_t version = WARREN_TRY(ledger_.newest_version(request.name));
  Prepared prepared = WARREN_TRY(launcher_.prepare(request, token, version));
  Child child = WARREN_TRY(Child::start(prepared.spec));
  life.dir = text_of(prepared.dir);
  life.process = child.process();
  life.token_sha256 = sha256_hex(as_bytes(token));
  life.state = LifeState::kRunning;
  life.started_at_us = clock_.now_us();
  return child;
}

Status Lives::plan_start(Plan& plan, const Operation& operation) {
  const Life* asked = supervisor_.find_asked(message_of(operation));
  if (asked == nullptr) return Error(Code::kNotFound, "the spawn request no longer exists");
  Life life = *asked;
  Result<Child> child = start_agent(life);
  if (child.ok()) {
    plan.supervision.started.push_back(std::move(child).take_value());
    registry_.set_status(plan, life.name, "active");
    report_life(plan, life.spawner, life, "spawned");
    log_.note(Severity::kInfo, "agent_spawned",
              {{"agent", life.name}, {"spawner", life.spawner}, {"cli", life.cli}, {"pid", life.process.pid}});
    plan.supervision.lives.push_back(std::move(life));
  } else {
    note_start_failed(plan, std::move(life), child.error());
  }
  return Ok{};
}

void Lives::give_up_start(Plan& plan, const Operation& operation, const Error& why) {
  const Life* asked = supervisor_.find_asked(message_of(operation));
  if (asked != nullptr) note_start_failed(plan, *asked, why);
}

void Lives::note_start_failed(Plan& plan, Life life, const Error& why) {
  life.state = LifeState::kFailed;
  life.outcome = why.message();
  life.ended_at_us = clock_.now_us();
  notices_.nack(plan, life.spawner, life.message_id, why);
  log_.note(Severity::kError, "spawn_failed", {{"agent", life.name}, {"error", life.outcome}});
  plan.supervision.lives.push_back(std::move(life));
}

void Lives::report_life(Plan& plan, const std::string& agent, const Life& life, std::string_view state) {
  Message notice{.kind = "status", .reference = life.message_id};
  notice.others = {{"STATE", std::string(state)}, {"AGENT", life.name}, {"PID", std::to_string(life.process.pid)}};
  bool has_ended = life.ended_at_us != 0;
  if (has_ended) notice.others.push_back({"OUTCOME", life.outcome});
  notice.body = has_ended ? fmt::format("{} is {}: {}\n", life.name, state, life.outcome)
                          : fmt::format("{} is {}\n", life.name, state);
  notices_.notify(plan, agent, std::move(notice));
}

// The nearest active agent above it.
std::string Lives::find_superior(const std::string& name) const {
  std::string above = supervisor_.find_spawner(name);
  for (int steps = 0; !above.empty() && steps < kSuperiorSteps; ++steps) {
    const AgentRow* agent = router_.find_agent(above);
    if (agent != nullptr && agent->status == "active") return above;
    above = supervisor_.find_spawner(above);
  }
  return "";
}

// Releases the agent with all agents that it started: they would have no spawner. Each is notified, so that it can save
// its state.
void Lives::release(Plan& plan, const Life& life, std::string_view releaser, std::string_view why) {
  std::vector<std::string> names = supervisor_.list_descendants(life.name);
  names.insert(names.begin(), life.name);
  for (const std::string& name : names) {
    std::optional<Life> one = find_life(plan, name);
    if (!one || one->state != LifeState::kRunning) continue;
    one->state = LifeState::kReleasing;
    one->releaser = releaser;
    one->outcome = text_of(why);
    Message notice{.kind = "status", .reference = one->message_id, .others = {{"STATE", "releasing"}}};
    notice.body = fmt::format("{}\n", why);
    notices_.notify(plan, name, std::move(notice));
    log_.note(Severity::kInfo, "agent_releasing", {{"agent", name}, {"by", releaser}, {"reason", why}});
    plan.supervision.lives.push_back(*std::move(one));
  }
}

Status Lives::plan_release(Plan& plan, const Outgoing& outgoing) {
  ReleaseRequest request = WARREN_TRY(parse_release_request(outgoing.message.body));
  std::string home = WARREN_TRY(find_home_of_life(request.name));
  if (home.empty()) return release_here(plan, request, {outgoing.row.agent, outgoing.row.id});
  Json payload = {{"message", outgoing.row.id}, {"releaser", outgoing.row.agent}, {"name", request.name}};
  payload["reason"] = text_of(request.reason);
  plan.supervision.releases.push_back({std::move(home), dump_json(payload)});
  return Ok{};
}

// The home whose relay started the agent; none if that is ours, or if no relay did.
Result<std::string> Lives::find_home_of_life(const std::string& name) {
  if (ledger_.homes() == nullptr || supervisor_.has_process(name) || supervisor_.is_asked(name)) return std::string();
  std::string home = WARREN_TRY(ledger_.find_home_of_life(name))
  .value_or("");
  return home == ledger_.homes()->id() ? "" : home;
}

// A request from a message at another home; this relay answers its sender.
Status Lives::plan_release_for(Plan& plan, const Json& payload) {
  Releaser releaser{text_in(payload, "releaser"), text_in(payload, "message")};
  Status done = release_here(plan, {text_in(payload, "name"), text_in(payload, "reason")}, releaser);
  if (!done.ok() && ledger_.engine().is_lost()) return done;
  if (!done.ok()) notices_.nack(plan, releaser.agent, releaser.message_id, done.error());
  return Ok{};
}

Status Lives::release_here(Plan& plan, const ReleaseRequest& request, const Releaser& by) {
  const std::string& releaser = by.agent;
  if (!may_command(releaser, request.name)) {
    return denied(by.message_id, "release",
                  fmt::format("only the lead and the agents that started {} may release it", quote(request.name)));
  }
  if (supervisor_.is_asked(request.name))
    return Error(Code::kBusy, fmt::format("{} is being started", quote(request.name)));
  std::optional<Life> life = find_life(plan, request.name);
  if (!life) return Error(Code::kNotFound, fmt::format("{} was not started by the relay", quote(request.name)));
  switch (life->state) {
    case LifeState::kRunning:
      release(plan, *life, releaser, request.reason.empty() ? "you are released" : request.reason);
      return Ok{};
    case LifeState::kExited:
      life->state = LifeState::kReleased;
      life->releaser = releaser;
      registry_.set_status(plan, life->name, "terminated");
      report_life(plan, releaser, *life, "released");
      release(plan, *life, releaser, request.reason);  // those it started
      plan.supervision.lives.push_back(*std::move(life));
      return Ok{};
    case LifeState::kReleasing: return Error(Code::kBusy, fmt::format("{} is being released", quote(request.name)));
    default: return Error(Code::kNotFound, fmt::format("{} has already been released", quote(request.name)));
  }
}

void Lives::plan_ends(Plan& plan) {
  for (const Ended& ended : supervisor_.ends()) plan_end(plan, ended);
  plan.supervision.ends = supervisor_.ends().size();
  for (const Overdue& overdue : supervisor_.overdue()) {
    std::optional<Life> life = find_life(plan, overdue.name);
    if (life) release(plan, *life, "", overdue.why);
  }
  plan.supervision.overdues = supervisor_.overdue().size();
}

// One that ended by itself may be started again and then finds its messages; one that was released is gone.
void Lives::plan_end(Plan& plan, const Ended& ended) {
  std::optional<Life> life = find_life(plan, ended.name);
  if (!life || !life->has_process()) return;
  bool was_released = life->state == LifeState::kReleasing;
  life->state = was_released ? LifeState::kReleased : LifeState::kExited;
  life->outcome = describe(ended.end);
  life->ended_at_us = clock_.now_us();
  registry_.set_status(plan, life->name, was_released ? "terminated" : "inactive");
  std::string_view state = name_of(life->state);
  std::string superior = find_superior(life->name);
  if (superior.empty()) superior = life->spawner;  // it finds the report when it is active again
  report_life(plan, superior, *life, state);
  if (!life->releaser.empty() && life->releaser != superior) report_life(plan, life->releaser, *life, state);
  log_.note(Severity::kInfo, was_released ? "agent_released" : "agent_exited",
            {{"agent", life->name}, {"pid", life->process.pid}, {"outcome", life->outcome}});
  plan.supervision.lives.push_back(*std::move(life));
}

// Of the agent that is named by the directory: one that was started has a token, and what carries another is not its
// own.
Status Lives::check_token(const Outgoing& outgoing) {
  const Life* life = supervisor_.find(outgoing.row.agent);
  if (life == nullptr) return Ok{};
  const std::string* token = outgoing.message.find("TOKEN");
  if (token == nullptr && !config_.spawn.requires_token) return Ok{};
  if (token == nullptr) return denied(outgoing, "TOKEN is missing; this relay requires it");
  if (sha256_hex(as_bytes(*token)) == life->token_sha256) return Ok{};
  return denied(outgoing, fmt::format("TOKEN does not belong to {}", quote(outgoing.row.agent)));
}

Status Lives::record(const Plan& plan) {
  for (const std::string& payload : plan.supervision.intents) WARREN_TRY(ledger_.request("spawn", payload));
  for (const ReleaseElsewhere& one : plan.supervision.releases) {
    WARREN_TRY(ledger_.request_at(one.home, "release", one.payload));
  }
  for (const Life& life : plan.supervision.lives) {
    WARREN_TRY(ledger_.put_life(life));
    if (life.state != LifeState::kAsked && life.state != LifeState::kFailed) {
      WARREN_TRY(ledger_.set_agent_pid(life.name, life.has_process() ? life.process.pid : 0));
    }
  }
  for (const SavedState& state : plan.supervision.saves) {
    WARREN_TRY(ledger_.save_state(state, config_.continuity.versions));
  }
  return Ok{};
}

Status Lives::reconcile() {
  std::vector<Life> lives = WARREN_TRY(ledger_.list_lives());
  supervisor_.reconcile(std::move(lives));
  is_doubtful_ = false;
  return Ok{};
}

// After the commit: the recorded changes are carried out.
void Lives::carry_out(Plan& plan) {
  Supervision& done = plan.supervision;
  supervisor_.apply(done.lives);
  supervisor_.open_gates(std::move(done.started));
  supervisor_.forget_reported(done.ends, done.overdues);
  for (const Life& life : done.lives) {
    if (life.state == LifeState::kAsked || life.state == LifeState::kFailed) continue;
    router_.set_spawner(life.name, life.spawner);
    write_meta(life);
  }
  for (const SavedState& state : done.saves) supervisor_.note_saved(state.agent);
}

// For people and other programs; the relay never reads it. Anything that an agent put in its place is replaced.
void Lives::write_meta(const Life& life) {
  std::string draft = fmt::format("tmp/meta.{}", life.name);
  Result<Fd> home = open_below(root_.agents(), life.name, O_RDONLY | O_DIRECTORY);
  Result<Fd> file = open_below(root_.dir(), draft, O_WRONLY | O_CREAT | O_TRUNC);
  Status written = !home.ok() ? Status(home.error()) : !file.ok() ? Status(file.error()) : Status(Ok{});
  if (written.ok()) written = write_all(file->get(), as_bytes(dump_json_pretty(meta_of(life)) + "\n"));
  std::optional<Owner> owner = root_.find_owner(life.name);
  if (written.ok() && owner && ::fchown(file->get(), owner->uid, owner->gid) != 0) {
    written = system_error(errno, "hand 'meta.json' to the agent's user");
  }
  if (written.ok() && ::renameat(root_.dir(), draft.c_str(), home->get(), "meta.json") != 0) {
    written = system_error(errno, "rename to 'meta.json'");
  }
  if (written.ok()) return;
  ::unlinkat(root_.dir(), draft.c_str(), 0);
  log_.note(Severity::kWarning, "meta_failed", {{"agent", life.name}, {"error", written.error().message()}});
}

bool Lives::is_sandboxed(std::string_view name) const {
  const Life* life = supervisor_.find(name);
  if (life == nullptr) return false;
  auto cli = config_.spawn.clis.find(life->cli);
  return cli != config_.spawn.clis.end() && cli->second.is_sandboxed;
}

void Lives::watch_superiors() {
  for (const std::string& name : supervisor_.list_running()) {
    supervisor_.note_superior(name, !find_superior(name).empty());
  }
}

}  // namespace warren::relay
