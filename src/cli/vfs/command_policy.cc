#include <array>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/editor.h"
#include "cli/show/text.h"
#include "cli/trust/trust_input.h"
#include "cli/vfs/view.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "host/requests.h"
#include "os/files/host_files.h"
#include "store/record/audit_log.h"
#include "vfs/grants.h"
#include "vfs/live_policy.h"
#include "vfs/namespace.h"

namespace warren::cli {
namespace {

struct Preset {
  std::string_view name;
  std::string_view text;
};
constexpr std::array<Preset, 4> kPresets{{
    {"open", R"({
  "version": 1,
  "comment": "Nothing beyond the rights that every namespace has.",
  "rules": []
}
)"},
    {"read-only", R"({
  "version": 1,
  "comment": "The agent may look at everything and write only its working memory and messages.",
  "rules": [
    {"space": "user", "path": "/mem/working", "effect": "allow"},
    {"space": "user", "path": "/ipc", "effect": "allow"},
    {"space": "user", "operation": ["write", "delete"], "path": "/", "effect": "deny", "reason": "this agent is read-only"}
  ]
}
)"},
    {"append-only-memory", R"({
  "version": 1,
  "comment": "What the agent remembers can grow and is never rewritten.",
  "rules": [
    {"space": "user", "path": "/mem/working", "effect": "allow"},
    {"space": "user", "operation": ["overwrite", "delete"], "path": "/mem", "effect": "deny", "reason": "memory is append-only"}
  ]
}
)"},
    {"no-network-drives", R"({
  "version": 1,
  "comment": "The agent cannot use what was fetched from elsewhere.",
  "rules": [
    {"space": "user", "path": "/context/url", "effect": "deny", "reason": "network drives are off"},
    {"space": "user", "path": "/context/github", "effect": "deny", "reason": "network drives are off"},
    {"space": "user", "path": "/context/google-docs", "effect": "deny", "reason": "network drives are off"}
  ]
}
)"},
}};

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

Result<std::string> policy_text(Context& context, const Arguments& args) {
  if (std::optional<std::string> name = args.find("preset")) {
    for (const Preset& preset : kPresets) {
      if (preset.name == *name) return std::string(preset.text);
    }
  }
  std::string file = args.find("FILE").value_or("-");
  if (file == "-") return read_input(context, Policy::kBytesMax);
  return read_host_file(file, Policy::kBytesMax);
}

// kNotFound also for an agent with a base that has no namespace yet.
Result<std::string> read_of_policy(Agent& agent, std::string_view path) {
  FileSystem* own = WARREN_TRY(agent.namespace_tree());
  return LivePolicy::read(*own, path);
}

Result<Exit> run_policy_show(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  Result<std::string> text = read_of_policy(*agent, kActivePolicy);
  if (!text.ok() && text.error().code() == Code::kNotFound) {
    context.err.line("warren: this agent has no policy; only the rights of the namespace hold");
    return Exit::kOk;
  }
  std::string content = WARREN_TRY(std::move(text));
  context.out.text(content);
  return Exit::kOk;
}

Result<Exit> run_policy_history(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  Result<std::string> text = read_of_policy(*agent, kPolicyHistory);
  if (!text.ok() && text.error().code() == Code::kNotFound) return Exit::kOk;
  std::string content = WARREN_TRY(std::move(text));
  context.out.text(content);
  return Exit::kOk;
}

// A rule that never decides is most likely in the wrong place.
void warn_of_idle_rules(Context& context, const Policy& policy) {
  for (std::size_t index : policy.idle_rules()) {
    context.err.print("warren: rule {} (line {}) never decides: rules before it match whatever it matches\n", index + 1,
                      policy.rules()[index].line);
  }
}

// Puts the policy in force, on the record if the namespace is.
Status replace_policy(Context& context, Agent& agent, const std::string& text,
                      const std::optional<std::string>& expected = std::nullopt) {
  FileSystem* own = WARREN_TRY(agent.namespace_tree());
  AuditLog* log = WARREN_TRY(agent.namespace_audit().within("start the audit trail"));
  warn_if_unrecorded(context, agent);
  std::string user = context.environment("USER").value_or("unknown");
  if (log == nullptr) return LivePolicy::replace(*own, text, user, context.clock, expected);
  AuditEvent event;
  event.at_us = context.clock.now_us();
  event.agent = agent.id();
  event.op = "write";
  event.path = kActivePolicy;
  event.size_bytes = text.size();
  event.trace = trace_of(context);
  event.door = "policy";
  event.space = "kernel";
  return log->change(std::move(event), [&] { return LivePolicy::replace(*own, text, user, context.clock, expected); });
}

Result<Exit> run_policy_set(Context& context, const Arguments& args) {
  if (args.has("preset") && args.has("FILE")) return refuse(context, "give a FILE or '--preset', not both");
  std::string text = WARREN_TRY(policy_text(context, args));
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite));
  Policy policy = WARREN_TRY(Policy::parse(text).within("policy"));
  warn_of_idle_rules(context, policy);
  WARREN_TRY(replace_policy(context, *agent, text).within("policy"));
  return Exit::kOk;
}

Result<std::string> active_policy(FileSystem& own) {
  Result<std::string> text = LivePolicy::read(own, kActivePolicy);
  if (!text.ok() && text.error().code() == Code::kNotFound) return std::string();
  return text;
}

Status put_edited_policy(Context& context, Agent& agent, const std::string& before, const DraftFolder& draft) {
  WARREN_TRY(run_editor(context, draft.file()));
  std::string text = WARREN_TRY(draft.read(Policy::kBytesMax));
  if (text == before) {
    context.err.line("warren: the policy was not changed");
    return Ok{};
  }
  Policy policy = WARREN_TRY(Policy::parse(text).within("policy"));
  warn_of_idle_rules(context, policy);
  return replace_policy(context, agent, text, before).within("policy");
}

Result<Exit> run_policy_edit(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite));
  FileSystem* own = WARREN_TRY(agent->namespace_tree());
  std::string before = WARREN_TRY(active_policy(*own));
  DraftFolder folder = WARREN_TRY(DraftFolder::make(context, "policy.json"));
  WARREN_TRY(replace_host_file(folder.file(), before.empty() ? kPresets[0].text : std::string_view(before), 0600));
  Status done = put_edited_policy(context, *agent, before, folder);
  if (!done.ok()) {
    return Error(done.error().code(), done.error().message(),
                 fmt::format("the policy in force is as before; what you wrote is in {}: mend it and use "
                             "`warren policy ID set FILE`",
                             quote(folder.file())));
  }
  folder.remove();
  return Exit::kOk;
}

Result<Exit> run_policy_check(Context& context, const Arguments& args) {
  std::string text = WARREN_TRY(policy_text(context, args));
  Policy policy = WARREN_TRY(Policy::parse(text).within("policy"));
  warn_of_idle_rules(context, policy);
  context.out.print("valid: {} rule{}, {} by default\n", policy.rules().size(), policy.rules().size() == 1 ? "" : "s",
                    policy.fallback() == Effect::kAllow ? "allow" : "deny");
  return Exit::kOk;
}

// Of a path as the command was given it: which one is judged, and by what. Without a namespace only the default policy
// is in force.
struct Asked {
  std::string path;
  std::string name;                      // the same, but a link in the last place is not followed: for deleting
  std::vector<std::string> other_paths;  // of a file with several names
  LivePolicy::Current now;
};

Result<Asked> asked_of(Agent& agent, std::string_view path, Clock& clock) {
  Result<FileSystem*> own = agent.namespace_tree();
  bool is_missing = !own.ok() && own.error().code() == Code::kNotFound;
  MemoryFs nothing(clock);
  if (is_missing) own = &nothing;
  FileSystem* tree = WARREN_TRY(std::move(own));
  Asked asked;
  std::string resolved = WARREN_TRY(resolve_path(agent.id(), path));
  asked.path = WARREN_TRY(follow_links(*tree, resolved));
  std::string parent = WARREN_TRY(follow_links(*tree, directory_of(resolved)));
  asked.name = resolved == "/" ? resolved : join_path(parent, base_name(resolved));
  asked.other_paths = WARREN_TRY(other_paths_of(*tree, asked.path));
  asked.now = WARREN_TRY(LivePolicy(*tree).current());
  return asked;
}

// Who asks; for another agent (--peer) by the operator's decisions about trust, like at a host.
struct Asker {
  Caller caller;
  std::string owner;             // whose namespace it is
  std::string untrusted_reason;  // why another agent reaches nothing here; "" otherwise
};

std::string untrusted_reason(const TrustState& state, const std::string& owner, const std::string& peer, int threshold,
                             std::int64_t now) {
  Standing standing = state.find(peer, now).standing;
  if (!standing.is_good()) return fmt::format("trust in {}: {}", quote(peer), reason_of(standing.verdict));
  if (standing.score < threshold) {
    return fmt::format("the score of {} is {}, and {} is needed", quote(peer), standing.score, threshold);
  }
  standing = state.find(owner, now).standing;
  return standing.is_good() ? "" : fmt::format("trust in {}: {}", quote(owner), reason_of(standing.verdict));
}

Result<Asker> find_asker(Context& context, const Arguments& args, const Agent& agent) {
  Asker asker{.caller = {.agent = agent.id(),
                         .space = args.has("as-operator") ? Space::kKernel : Space::kUser,
                         .door = "policy",
                         .session = {}},
              .owner = agent.id(),
              .untrusted_reason = {}};
  std::optional<std::string> peer = args.find("peer");
  if (!peer) return asker;
  WARREN_TRY(check_agent_id(*peer));
  TrustFile file = WARREN_TRY(operator_trust(context));
  TrustState state = WARREN_TRY(file.read());
  std::int64_t now = context.clock.now().seconds;
  auto threshold = static_cast<int>(args.integer("threshold"));
  asker.caller.agent = *peer;
  asker.caller.grants = std::make_shared<const Grants>(grants_of(state.shared(agent.id(), *peer, threshold, now)));
  asker.untrusted_reason = untrusted_reason(state, agent.id(), *peer, threshold, now);
  return asker;
}

std::string reason_of(const Policy& policy, const Verdict& verdict, const Asker& asker, Rights::Operation operation) {
  const Caller& caller = asker.caller;
  if (!asker.untrusted_reason.empty()) return asker.untrusted_reason;
  if (verdict.region && caller.grants && peer_rights_in(*verdict.region).has(operation)) {
    return fmt::format("the manifest of {} does not share it", quote(asker.owner));
  }
  if (verdict.region && caller.grants) {
    return fmt::format("the namespace's own rights in {} for other agents", name_of(*verdict.region));
  }
  if (verdict.region) {
    return fmt::format("the namespace's own rights in {} for {} space", name_of(*verdict.region),
                       name_of(caller.space));
  }
  if (!verdict.rule) return policy.rules().empty() ? "no rules" : "no rule matches: the default";
  const Rule& rule = policy.rules()[*verdict.rule];
  return fmt::format("rule {} (line {}), path {}{}{}", *verdict.rule + 1, rule.line, quote(rule.path_text),
                     rule.reason.empty() ? "" : ": ", rule.reason);
}

// The limits that an operation meets, even where it is allowed.
Json limits_of(const PolicyLimits& limits, Rights::Operation operation) {
  Json found = Json::object();
  if (operation == Rights::kRead || operation == Rights::kList) return found;
  if (limits.changes_per_second) found["changes_per_second"] = *limits.changes_per_second;
  bool may_grow = operation == Rights::kOverwrite || operation == Rights::kAppend;
  if (limits.file_bytes && may_grow) found["file_bytes"] = *limits.file_bytes;
  return found;
}

std::string limits_text(const Json& limits) {
  std::string text;
  if (limits.contains("file_bytes"))
    text = fmt::format("files of at most {} bytes", limits["file_bytes"].get<std::uint64_t>());
  if (!limits.contains("changes_per_second")) return text;
  return fmt::format("{}{}{} changes a second", text, text.empty() ? "at most " : ", at most ",
                     limits["changes_per_second"].get<std::uint64_t>());
}

Result<Exit> run_policy_explain(Context& context, const Arguments& args) {
  if (args.has("peer") && args.has("as-operator")) return refuse(context, "give '--peer' or '--as-operator', not both");
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  Rights asked = WARREN_TRY(parse_operation(args.get("OPERATION")));
  const auto [path, name, other_paths, now] = WARREN_TRY(asked_of(*agent, args.get("PATH"), context.clock));
  const Asker asker = WARREN_TRY(find_asker(context, args, *agent));
  Json list = Json::array();
  bool is_allowed = true;
  for (Rights::Operation one :
       {Rights::kRead, Rights::kList, Rights::kOverwrite, Rights::kAppend, Rights::kCreate, Rights::kDelete}) {
    if (!asked.has(one)) continue;
    Verdict verdict = now.policy->judge(asker.caller, one, one == Rights::kDelete ? name : path);
    bool allows = verdict.effect == Effect::kAllow;
    std::string by_name;
    for (const std::string& other : one == Rights::kDelete ? std::vector<std::string>() : other_paths) {
      if (!allows) break;
      verdict = now.policy->judge(asker.caller, one, other);
      allows = verdict.effect == Effect::kAllow;
      if (!allows) by_name = fmt::format("; the file is also {}", quote(other));
    }
    is_allowed = is_allowed && allows;
    std::string reason = reason_of(*now.policy, verdict, asker, one) + by_name;
    Json limits = allows ? limits_of(now.policy->limits(), one) : Json::object();
    if (args.has("json")) {
      list.push_back({{"operation", name_of(one)},
                      {"effect", allows ? "allow" : "deny"},
                      {"reason", reason},
                      {"limits", std::move(limits)}});
    } else {
      context.out.print("{:<10} {:<6} {}{}{}\n", name_of(one), allows ? "allow" : "deny", context.out.name(reason),
                        limits.empty() ? "" : "; ", limits_text(limits));
    }
  }
  // Rights go by path, whatever is mounted there; it is said so that nobody has to wonder.
  std::vector<MountSpec> mounts = WARREN_TRY(mounts_of(args, agent->path()));
  for (const MountSpec& mount : mounts) {
    bool is_there = path == mount.path || path.starts_with(mount.path + "/");
    if (is_there && !args.has("json")) {
      context.out.print("mounted there: {} on {}\n", context.out.name(mount.backend), context.out.name(mount.path));
    }
  }
  if (args.has("json")) context.out.json(list);
  return is_allowed ? Exit::kOk : Exit::kFailed;
}

}  // namespace

Command make_policy() {
  std::vector<Option> explain_options = {
      {.name = "as-operator", .help = "for kernel space instead of the agent"},
      {.name = "peer", .value = "AGENT", .help = "for another agent at a host, by what you decided about trust"},
      {.name = "threshold",
       .value = "N",
       .help = "with --peer: the score that the host asks for",
       .kind = ValueKind::kCount,
       .fallback = "7"},
      json_option()};
  for (Option& one : mount_options()) explain_options.push_back(std::move(one));
  Positional file{.name = "FILE",
                  .help = "the policy; `-` or nothing: from standard input",
                  .times = Times::kOptional,
                  .suggest = Suggest::kHostFiles};
  Option preset{.name = "preset", .value = "NAME", .help = "a ready-made policy", .choices = preset_names()};
  return {.name = "policy",
          .summary = "Show and change the rules of an agent's namespace",
          .details =
              "A policy narrows what the namespace allows: the first rule that matches caller, operation and path "
              "decides. It takes effect at once in every process that has the agent open.",
          .positionals = {id_argument()},
          .options = {},
          .subcommands = {{.name = "show",
                           .summary = "Print the policy in force",
                           .details = "",
                           .positionals = {},
                           .options = {},
                           .subcommands = {},
                           .handler = run_policy_show},
                          {.name = "set",
                           .summary = "Check a policy and put it in force",
                           .details = "",
                           .positionals = {file},
                           .options = {preset},
                           .subcommands = {},
                           .handler = run_policy_set},
                          {.name = "edit",
                           .summary = "Change the policy with an editor",
                           .details =
                               "Starts $VISUAL or $EDITOR (or vi) on a copy. When it ends, the copy is checked and put "
                               "in force; if that fails, the copy is kept and the policy stays as it was.",
                           .positionals = {},
                           .options = {},
                           .subcommands = {},
                           .handler = run_policy_edit},
                          {.name = "check",
                           .summary = "Check whether a policy is valid, without changing anything",
                           .details = "",
                           .positionals = {file},
                           .options = {preset},
                           .subcommands = {},
                           .handler = run_policy_check},
                          {.name = "explain",
                           .summary = "Show what decides whether an operation on a path is allowed",
                           .details = "Exits with 1 if it is denied.",
                           .positionals = {{.name = "OPERATION",
                                            .help = "read, list, write, overwrite, append, create, delete or *"},
                                           {.name = "PATH", .help = "a path of the namespace"}},
                           .options = std::move(explain_options),
                           .subcommands = {},
                           .handler = run_policy_explain},
                          {.name = "history",
                           .summary = "Print the policies that were put in force",
                           .details = "",
                           .positionals = {},
                           .options = {},
                           .subcommands = {},
                           .handler = run_policy_history}},
          .handler = nullptr};
}

}  // namespace warren::cli
