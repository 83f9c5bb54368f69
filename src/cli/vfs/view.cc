#include "cli/vfs/view.h"

#include <fmt/format.h>

#include "cli/syntax/values.h"
#include "session/mount_config.h"

namespace warren::cli {

Result<OpenView> open_view(Context& context, const Arguments& args, std::string_view door) {
  for (std::string_view option : {"key", "host-user"}) {
    if (args.has(option))
      return Error(Code::kInvalid, fmt::format("--{} is for --host SOCKET, which is missing", option));
  }
  OpenView view;
  Result<std::unique_ptr<Agent>> agent = open_state(context, args, Use::kWrite);
  if (!agent.ok() && (agent.error().code() == Code::kReadOnly || agent.error().code() == Code::kDenied)) {
    agent = open_state(context, args, Use::kRead);
  }
  view.agent = WARREN_TRY(std::move(agent));
  std::vector<MountSpec> mounts = WARREN_TRY(mounts_of(args, view.agent->path()));
  view.names = WARREN_TRY(
      AgentNamespace::open(*view.agent, {.working = WorkingMemory::kRuntimeFolder, .mounts = mounts}, context.clock));
  warn_if_unrecorded(context, *view.agent);
  view.fs = (*view.names)
                ->view({.agent = view.names->agent_id(),
                        .space = args.has("as-agent") ? Space::kUser : Space::kKernel,
                        .door = std::string(door),
                        .session = {},
                        .trace = trace_of(context)});
  return view;
}

Result<std::vector<MountSpec>> mounts_of(const Arguments& args, const std::string& agent_path) {
  return load_mounts({.agent = agent_id_of(agent_path), .arguments = args.all("mount"), .file = args.find("mounts")});
}

std::vector<Option> mount_options() {
  return {{.name = "mount",
           .value = "PATH=BACKEND",
           .help = "mount a backend in the namespace: memory:, sqlite:FILE, exec:COMMAND, redis://HOST, …; repeatable",
           .is_list = true},
          {.name = "mounts",
           .value = "FILE",
           .help = "mount what a TOML file lists, in tables [[mount]] with path and backend",
           .suggest = Suggest::kHostFiles}};
}

std::vector<Option> anchor_options() {
  return {{.name = "anchor",
           .value = "WHERE",
           .help = "anchor the audit trail there, at intervals and at the end: a file, agent:ID, or a backend"},
          {.name = "anchor-every",
           .value = "DURATION",
           .help = "how often to anchor it while it grows [default: 10m]",
           .kind = ValueKind::kDuration}};
}

Result<std::optional<AnchorOptions>> asked_anchor(const std::optional<std::string>& address,
                                                  const std::optional<std::string>& every) {
  if (!address && every) return Error(Code::kInvalid, "--anchor-every needs --anchor WHERE");
  if (!address) return std::optional<AnchorOptions>();
  AnchorOptions options{.address = *address};
  if (every) options.every = WARREN_TRY(parse_duration(*every));
  AnchorOptions checked = WARREN_TRY(checked_anchor(std::move(options)).within("--anchor"));
  return std::optional(std::move(checked));
}

Option as_agent_option() {
  return {.name = "as-agent", .help = "use the agent's own rights instead of the operator's"};
}

}  // namespace warren::cli
