#include "cli/agentfs/agentfs_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "cli/agentfs/agentfs_mount.h"
#include "cli/context.h"
#include "cli/run/run_report.h"
#include "cli/run/run_settings.h"
#include "cli/show/text.h"

namespace warren::cli {
namespace {

Result<Exit> run_run(Context& context, const Arguments& args) {
  if (args.has("experimental-sandbox") || args.has("strace")) {
    return Error(Code::kUnsupported, "the ptrace sandbox is not supported by Warren");
  }
  if (args.has("key") || args.has("cipher")) {
    return Error(Code::kUnsupported, "encryption not supported: a key in an argument list can be seen by other users");
  }
  RunOptions options;
  options.naming = SessionNaming::kUuid;
  options.ignores_walls_when_joining = true;
  options.session = args.find("session");
  if (options.session && !is_agent_id(*options.session)) {
    return Error(Code::kInvalid,
                 fmt::format("Invalid session ID {}. Session IDs {}.", quote(*options.session), kIdRule));
  }
  if (args.has("allow")) options.allow = args.all("allow");
  if (args.has("no-default-allows") && args.has("allow-default")) {
    return Error(Code::kInvalid, "--allow-default and --no-default-allows cannot be used together");
  }
  if (args.has("no-default-allows")) options.default_allows = DefaultAllows::kNone;
  if (args.has("allow-default")) {
    options.default_allows = DefaultAllows::kAgentFs;
    options.has_asked_for_default_allows = true;
    options.environment = EnvironmentBasis::kEverything;
  }
  options.has_namespace = false;  // AgentFS has none
  options.has_asked_for_namespace = true;
  WARREN_TRY(take_settings(args, options));
  options.at_end = AtEnd::kKeep;
  options.command = args.has("COMMAND") ? args.all("COMMAND") : std::vector<std::string>{"bash"};
  options.process_label = options.command.front();
  return run_and_report_as_agentfs(context, options);
}

std::string ago(std::int64_t seconds) {
  if (seconds < 60) return fmt::format("{}s ago", seconds);
  if (seconds < 3600) return fmt::format("{}m ago", seconds / 60);
  if (seconds < 86'400) return fmt::format("{}h ago", seconds / 3600);
  return fmt::format("{}d ago", seconds / 86'400);
}

Result<Exit> run_ps(Context& context, const Arguments&) {
  constexpr std::size_t kCommandColumns = 15;
  std::vector<SessionInfo> all = WARREN_TRY(list_sessions());
  std::erase_if(all, [](const SessionInfo& session) { return session.processes.empty(); });
  if (all.empty()) {
    context.out.line("No active agentfs run sessions.");
    return Exit::kOk;
  }
  std::sort(all.begin(), all.end(), [](const SessionInfo& a, const SessionInfo& b) {
    return a.processes.front().started_at < b.processes.front().started_at;
  });
  constexpr std::string_view kRow = "{:<36} {:>8} {:^5} {} {:>10}\n";
  auto row = [&](std::string_view id, std::string_view pid, std::string_view owner, std::string_view command,
                 std::string_view started) {
    std::string shown = pad_right(shorten(printable(command), kCommandColumns), kCommandColumns);
    context.out.write(fmt::format(fmt::runtime(kRow), id, pid, owner, shown, started));
  };
  row("SESSION", "PID", "OWNER", "COMMAND", "STARTED");
  std::int64_t now = context.clock.now().seconds;
  for (const SessionInfo& session : all) {
    for (const SessionProcess& process : session.processes) {
      row(session.id, std::to_string(process.pid), process.is_owner ? "*" : "", process.command,
          ago(std::max<std::int64_t>(0, now - process.started_at)));
    }
  }
  return Exit::kOk;
}

}  // namespace

Command make_agentfs_run() {
  return {
      .name = "run",
      .summary = "Run a program in a copy-on-write sandbox over this directory",
      .details = "",
      .positionals = {{.name = "COMMAND", .help = "the program (default: bash)", .times = Times::kAnyCommand}},
      .options =
          {{.name = "allow",
            .value = "PATH",
            .help = "let the program write to PATH directly",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "allow-default",
            .help = "let the program write to AgentFS's default paths, such as ~/.cache, and pass it the whole "
                    "environment"},
           {.name = "no-default-allows", .help = "do not write sign-in files of known agents to your home directory"},
           {.name = "experimental-sandbox", .help = "not supported by Warren"},
           {.name = "strace", .help = "not supported by Warren"},
           {.name = "session",
            .value = "ID",
            .help = "share the changes of this session",
            .suggest = Suggest::kSessions},
           {.name = "system", .help = "has no effect: nobody outside the sandbox sees the files"},
           {.name = "key", .value = "KEY", .help = "not supported by Warren", .environment = "AGENTFS_KEY"},
           {.name = "cipher", .value = "CIPHER", .help = "not supported by Warren", .environment = "AGENTFS_CIPHER"}},
      .subcommands = {},
      .handler = run_run};
}

Command make_agentfs_ps() {
  return {.name = "ps",
          .summary = "List the sessions of `agentfs run`",
          .details = "",
          .positionals = {},
          .options = {},
          .subcommands = {},
          .handler = run_ps};
}

}  // namespace warren::cli
