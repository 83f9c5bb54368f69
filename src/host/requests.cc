#include "host/requests.h"

#include <algorithm>
#include <array>

#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "host/operations.h"
#include "vfs/on_record.h"

namespace warren {
namespace {

Error refused_identity() {
  return Error(Code::kDenied, "the host does not know this agent, or not by this key",
               "the operator accepts an agent with `warren trust add MANIFEST`");
}

Error not_shared() { return Error(Code::kNotFound, "it does not exist, or it is not shared with you"); }

// Errors that only whoever was granted the path can meet. Everything else is "not shared", also what would tell
// a missing name from a hidden one: a directory that is not empty, though nothing in it is shown.
bool may_be_reported(Code code) {
  constexpr std::array kReported{Code::kInvalid,  Code::kExists,      Code::kIsDirectory, Code::kNoSpace,
                                 Code::kTooLarge, Code::kReadOnly,    Code::kBusy,        Code::kLimit,
                                 Code::kTimeout,  Code::kNameTooLong, Code::kUnavailable};
  return std::ranges::find(kReported, code) != kReported.end();
}

// The name of an operation in audit trails.
std::string_view recorded_name(std::string_view op) { return op == "remove" ? "delete" : op; }

Rights rights_for(Scope::Verb verb) {
  switch (verb) {
    case Scope::Verb::kRead: return Rights::kRead | Rights::kList;
    case Scope::Verb::kAppend: return Rights::kAppend | Rights::kCreate;
    case Scope::Verb::kWrite: return kWriteRights;
    case Scope::Verb::kDelete: return Rights::kDelete;
  }
  return {};
}

}  // namespace

Grants grants_of(const std::vector<Scope>& scopes) {
  Grants grants;
  for (const Scope& scope : scopes) grants.add(scope.path, rights_for(scope.verb));
  return grants;
}

std::string challenge_bytes(std::string_view challenge, std::string_view agent, uid_t host_user) {
  return fmt::format("warren host 1\n{}\n{}\n{}", challenge, agent, host_user);
}

// The operator's reason, with paths and names, is in `warren host status` and `warren trust show`.
Result<LiveTrust::Current> Requests::trusted_now() {
  Result<LiveTrust::Current> trust = trust_.current();
  if (trust.ok()) return trust;
  return Error(Code::kUnavailable, "the host cannot decide now whom it serves", "try again later");
}

Result<HostClientIdentity> Requests::identify(std::string_view agent, const Ed25519Signature& signature,
                                              std::string_view challenge) {
  LiveTrust::Current trust = WARREN_TRY(trusted_now());
  TrustState::Known known = trust.state->find(agent, clock_.now().seconds);
  // An unknown agent costs the same: its signature is checked, too, against a key that does not count.
  Ed25519Public key;
  if (known.manifest != nullptr) key = known.manifest->key;
  bool is_signed = key.verifies(as_bytes(challenge_bytes(challenge, agent, ::geteuid())), signature);
  if (!is_signed || known.manifest == nullptr || !known.standing.is_good()) return refused_identity();
  return HostClientIdentity{.agent = std::string(agent), .key = key};
}

Status Requests::check_standing(const HostClientIdentity& client) {
  LiveTrust::Current trust = WARREN_TRY(trusted_now());
  TrustState::Known known = trust.state->find(client.agent, clock_.now().seconds);
  if (known.standing.is_good() && known.manifest->key == client.key) return Ok{};
  return refused_identity();
}

// '..' is walked as text and never leaves the whole: "/agent/a/../b" is "/agent/b", and judged as that.
Result<Requests::Target> Requests::find_target(const HostClientIdentity& client, std::string_view path) const {
  auto names = WARREN_TRY(split_path(path));
  std::vector<std::string_view> walked;
  for (std::string_view name : names) {
    if (name != "..") walked.push_back(name);
    else if (!walked.empty()) walked.pop_back();
  }
  Target target{.agent = client.agent, .path = ""};
  std::size_t first = 0;
  if (!walked.empty() && walked[0] == "agent") {
    target.agent = walked.size() < 2 ? "" : std::string(walked[1]);
    first = std::min<std::size_t>(walked.size(), 2);
  }
  for (std::size_t i = first; i < walked.size(); ++i) target.path += fmt::format("/{}", walked[i]);
  if (target.path.empty()) target.path.push_back('/');
  return target;
}

Result<Frame> Requests::run(const HostClientIdentity& client, const Frame& request) {
  auto op = request.head.find("op");
  if (op == request.head.end() || !op->is_string()) return Error(Code::kInvalid, "'op' must be a string");
  std::string name = op->get<std::string>();
  WARREN_TRY(check_operation(name));
  std::string path = WARREN_TRY(get_frame_bytes(request.head, "path"));
  Target target = WARREN_TRY(find_target(client, path));
  if (target.agent.empty()) return list_agents(client, name);
  if (target.agent == client.agent) return run_own(name, target, request);
  Result<Frame> answer = run_as_peer(client, name, target, request);
  if (!answer.ok() && !may_be_reported(answer.error().code())) {
    if (name == "exists") answer = Frame{.head = {{"ok", true}, {"exists", false}}, .body = {}};
    else answer = not_shared();
  }
  WARREN_TRY(record(client, name, target, answer));
  return answer;
}

// In the trail of who asked, as it was answered: that can be read there, and must not say more. The other agent's trail
// has what was done, by its own view. Looking is not recorded, as everywhere.
Status Requests::record(const HostClientIdentity& client, const std::string& op, const Target& target,
                        const Result<Frame>& answer) {
  if (op == "stat" || op == "exists") return Ok{};
  Result<std::shared_ptr<HostedAgent>> own = agents_.get(client.agent);
  if (!own.ok()) return Ok{};  // it has no trail here
  std::string path = fmt::format("/agent/{}{}", target.agent, target.path == "/" ? "" : target.path);
  Status outcome = answer.ok() ? Status(Ok{}) : Status(answer.error());
  return (*own)->own_view()->record(recorded_name(op), path, outcome);
}

Result<Frame> Requests::run_own(const std::string& op, const Target& target, const Frame& request) {
  std::shared_ptr<HostedAgent> agent = WARREN_TRY(agents_.get(target.agent));
  std::shared_ptr<NamespaceView> view = agent->own_view();
  Result<Frame> answer = run_operation(op, target.path, request, {agent->names(), *view, clock_, ""});
  bool is_noted_here = op == "read" || op == "list" || op == "remove";  // what else fails is noted by the view
  return is_noted_here ? on_record(*view, recorded_name(op), target.path, std::move(answer)) : std::move(answer);
}

Result<Frame> Requests::run_as_peer(const HostClientIdentity& client, const std::string& op, const Target& target,
                                    const Frame& request) {
  LiveTrust::Current trust = WARREN_TRY(trusted_now());
  Grants grants = grants_of(trust.state->shared(target.agent, client.agent, threshold_, clock_.now().seconds));
  // By the text alone, before anything is opened. A link cannot lead from here to what is granted: its own name would
  // have to be.
  if (grants.at(target.path).is_empty()) return not_shared();
  Result<std::shared_ptr<HostedAgent>> agent = agents_.get(target.agent);
  if (!agent.ok() && agent.error().code() != Code::kNotFound) {
    return Error(Code::kUnavailable, "the agent cannot be opened now");  // the reason is not for others
  }
  std::shared_ptr<HostedAgent> served = WARREN_TRY(std::move(agent));
  std::shared_ptr<NamespaceView> view = served->peer_view(client.agent, trust.generation, grants);
  return run_operation(op, target.path, request, {served->names(), *view, clock_, "/agent/" + target.agent});
}

// "/agent": the client itself, and who shares something with it.
Result<Frame> Requests::list_agents(const HostClientIdentity& client, const std::string& op) {
  if (op == "exists") return Frame{.head = {{"ok", true}, {"exists", true}}, .body = {}};
  if (op != "list") return not_shared();
  LiveTrust::Current trust = WARREN_TRY(trusted_now());
  std::int64_t now = clock_.now().seconds;
  Json names = Json::array();
  for (const auto& [identity, manifest] : trust.state->manifests) {
    bool is_shared = identity == client.agent || !trust.state->shared(identity, client.agent, threshold_, now).empty();
    if (!is_shared || !agents_.is_served(identity)) continue;
    names.push_back(directory_entry(identity));
  }
  return Frame{.head = {{"ok", true}}, .body = dump_json(names)};
}

}  // namespace warren
