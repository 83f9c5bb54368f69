#include "cli/serve/served_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/base_note.h"
#include "agent/locate.h"
#include "agent/relay_root.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/trust/trust_input.h"
#include "fs/path_ops.h"
#include "host/requests.h"
#include "os/files/host_files.h"
#include "trust/trust_file.h"
#include "vfs/grants.h"

namespace warren::cli {
namespace {

// The directory that --root names, if it is one. It must not be a link, whose target could change.
Result<std::string> served_root(AgentNamespace& names, const Arguments& args) {
  if (!args.has("root")) return std::string();
  std::string root = WARREN_TRY(names->resolve(args.get("root")).within("--root"));
  auto view = names->view({.agent = names.agent_id(), .space = Space::kKernel, .door = {}, .session = {}});
  Attributes node = WARREN_TRY(lstat(*view, root).within("--root"));
  if (!node.is_directory())
    return Error(Code::kNotDirectory, fmt::format("--root: {} is not a directory", quote(root)));
  return root;
}

// With its base, unless the agent file came from elsewhere: then its base could be any directory.
Status choose_layers(Context& context, AgentOptions& options) {
  options.layers = Layers::kOwn;
  std::string path = WARREN_TRY(locate_agent(options.id_or_path));
  if (path == kMemoryAgent) return Ok{};
  std::optional<BaseNote> note = WARREN_TRY(find_base_note(path));
  if (!note) return Ok{};
  AgentOptions only_to_look{.id_or_path = options.id_or_path, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn};
  auto agent = WARREN_TRY(Agent::open(only_to_look, context.clock));
  if (agent->base() != note->base) return Ok{};
  std::optional<struct stat> there = WARREN_TRY(find_host_file(note->base));
  if (!there) {
    context.err.print("warren: the base {} does not exist, so {} is not served\n", context.err.name(note->base),
                      kProjectPath);
    return Ok{};
  }
  options.layers = Layers::kMerged;
  options.hidden = note->hidden;
  return Ok{};
}

Result<std::unique_ptr<Agent>> open_served_agent(Context& context, const Arguments& args) {
  AgentOptions options{.id_or_path = args.get("ID"),
                       .mode = args.has("read-only") ? OpenMode::kReadOnly : OpenMode::kReadWrite,
                       .durability = Durability::kProcess,
                       .may_record = true};
  WARREN_TRY(choose_layers(context, options));
  // Also for keys and tool calls, which are in no view.
  options.caller = {.agent = {},
                    .space = args.has("as-operator") ? Space::kKernel : Space::kUser,
                    .door = "mcp",
                    .session = {},
                    .trace = trace_of(context)};
  Result<std::unique_ptr<Agent>> agent = Agent::open(options, context.clock);
  if (!agent.ok() && (agent.error().code() == Code::kReadOnly || agent.error().code() == Code::kDenied)) {
    options.mode = OpenMode::kReadOnly;
    agent = Agent::open(options, context.clock);
  }
  return agent;
}

std::string text_of(const std::vector<Scope>& scopes) {
  std::string text;
  for (const Scope& scope : scopes) text += fmt::format("{} {}\n", static_cast<int>(scope.verb), quote(scope.path));
  return text;
}

// The view of another agent, made anew when what is shared with it has changed.
class PeerView {
 public:
  PeerView(TrustFile file, AgentNamespace& names, Caller caller, Clock& clock)
      : trust_(std::move(file)), names_(names), caller_(std::move(caller)), clock_(clock) {}

  // kNotFound for an agent of which the operator accepted no manifest: nothing can be shared with it.
  Status check_known() {
    LiveTrust::Current now = WARREN_TRY(trust_.current().within("read the decisions about trust"));
    if (now.state->find(caller_.agent, clock_.now().seconds).manifest != nullptr) return Ok{};
    return Error(Code::kNotFound, fmt::format("--as: no manifest of {} was accepted", quote(caller_.agent)),
                 "`warren trust accept FILE` accepts one");
  }

  // For one thread at a time.
  Result<std::unique_ptr<NamespaceView>> renew() {
    LiveTrust::Current now = WARREN_TRY(trust_.current().within("read the decisions about trust"));
    std::vector<Scope> shared =
        now.state->shared(names_.agent_id(), caller_.agent, kTrustThreshold, clock_.now().seconds);
    std::string text = text_of(shared);
    if (last_ == text) return std::unique_ptr<NamespaceView>();
    last_ = text;
    Caller caller = caller_;
    caller.grants = std::make_shared<const Grants>(grants_of(shared));
    return names_->view(std::move(caller));
  }

 private:
  LiveTrust trust_;
  AgentNamespace& names_;
  Caller caller_;
  Clock& clock_;
  std::optional<std::string> last_;
};

Status open_view_of_peer(Context& context, const Arguments& args, Caller caller, ServedView& view) {
  WARREN_TRY(check_agent_id(args.get("as")).within("--as"));
  if (args.get("as") == caller.agent) {
    return Error(Code::kInvalid, fmt::format("--as: {} is the agent that is served", quote(caller.agent)),
                 "leave --as out to serve it to itself");
  }
  caller.agent = args.get("as");
  TrustFile file = WARREN_TRY(operator_trust(context));
  // Shared with the function that renews it.
  auto peer = std::make_shared<PeerView>(std::move(file), *view.open.names, std::move(caller), context.clock);
  WARREN_TRY(peer->check_known());
  view.open.fs = WARREN_TRY(peer->renew());
  view.renew_view = [peer] { return peer->renew(); };
  return Ok{};
}

std::vector<std::string> allowed_words(const Arguments& args) {
  return args.has("allow") ? args.all("allow") : std::vector<std::string>();
}

}  // namespace

Status check_served_options(const Arguments& args) {
  if (args.has("relay-as") && args.has("root")) {
    return Error(Code::kInvalid,
                 "'--relay-as' and '--root' cannot be used together: messages are in /ipc of the "
                 "namespace, which --root leaves out");
  }
  for (std::string_view own : {"as-operator", "allow", "relay-as"}) {
    if (args.has("as") && args.has(own)) {
      return Error(Code::kInvalid, fmt::format("'--{}' is not for other agents, which '--as' names", own));
    }
  }
  if (!args.has("allow")) return Ok{};
  for (std::string_view other : {"root", "read-only"}) {
    if (args.has(other)) {
      return Error(Code::kInvalid, fmt::format("'--allow' and '--{}' cannot be used together: a command in the sandbox "
                                               "sees and changes all of the project",
                                               other));
    }
  }
  return Ok{};
}

Result<std::optional<RelayPlace>> find_relay_place(Context& context, const Arguments& args) {
  std::optional<std::string> name = args.find("relay-as");
  std::optional<std::string> root = args.find("relay");
  if (name && name->empty()) return Error(Code::kInvalid, "--relay-as: the name is empty");
  if (!name) {
    if (root) return Error(Code::kInvalid, "--relay needs --relay-as NAME");
    return std::optional<RelayPlace>();
  }
  std::string found = WARREN_TRY(find_relay_root(root, context.environment("WARREN_RELAY_ROOT")));
  RelayPlace place{.root = std::move(found), .name = *name, .token = {}};
  if (context.environment("AGENT_RELAY_NAME") == place.name) {
    place.token = context.environment("AGENT_RELAY_TOKEN").value_or("");
  }
  return std::optional(std::move(place));
}

std::vector<Option> relay_place_options() {
  return {{.name = "relay-as",
           .value = "NAME",
           .help = "offer the messages of this agent of a relay: tools, and /ipc of the namespace"},
          {.name = "relay",
           .value = "DIR",
           .help = "the relay's directory [default: WARREN_RELAY_ROOT, or ~/.agent-relay]",
           .suggest = Suggest::kHostDirs}};
}

Result<ServedView> open_served_view(Context& context, const Arguments& args) {
  WARREN_TRY(check_served_options(args));
  ServedView view;
  view.open.agent = WARREN_TRY(open_served_agent(context, args));
  view.reach.relay = WARREN_TRY(find_relay_place(context, args));
  WARREN_TRY(allow_tools(allowed_words(args), *view.open.agent, view.reach));
  AgentNamespaceOptions names;
  names.mounts = WARREN_TRY(mounts_of(args, view.open.agent->path()));
  names.shows_project = true;
  if (view.reach.relay) {
    std::string root = WARREN_TRY(canonical_host_path(view.reach.relay->root)
                                      .within(fmt::format("there is no relay at {}", quote(view.reach.relay->root))));
    names.relay = RelayMailbox{.root = std::move(root), .name = view.reach.relay->name};
  }
  view.open.names = WARREN_TRY(AgentNamespace::open(*view.open.agent, names, context.clock));
  warn_if_unrecorded(context, *view.open.agent);
  Caller caller{.agent = view.open.names->agent_id(),
                .space = args.has("as-operator") ? Space::kKernel : Space::kUser,
                .door = "mcp",
                .session = {},
                .trace = trace_of(context)};
  caller.root = WARREN_TRY(served_root(*view.open.names, args));
  if (args.has("as")) WARREN_TRY(open_view_of_peer(context, args, std::move(caller), view));
  else view.open.fs = (*view.open.names)->view(std::move(caller));
  return view;
}

std::vector<Option> served_view_options() {
  std::vector<Option> options{
      {.name = "read-only", .help = "offer only tools that change nothing"},
      {.name = "root", .value = "PATH", .help = "let clients use only what is below this directory of the namespace"},
      {.name = "as-operator", .help = "use the operator's rights instead of the agent's own"},
      {.name = "as", .value = "AGENT", .help = "serve what is shared with this other agent (`warren trust`)"},
      {.name = "allow",
       .value = "WHAT",
       .help = "for a session: also offer `run` (commands in its sandbox) or `apply` (its changes, to the base); "
               "repeatable",
       .choices = {"run", "apply"},
       .is_list = true}};
  for (Option& one : relay_place_options()) options.push_back(std::move(one));
  for (Option& one : mount_options()) options.push_back(std::move(one));
  return options;
}

}  // namespace warren::cli
