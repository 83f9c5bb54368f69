#include "agent/locate.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/run/run_report.h"
#include "os/host_files.h"
#include "os/terminal.h"
#include "sandbox/enter.h"

namespace warren::cli {
namespace {

std::vector<std::string> list_of(const Arguments& args, std::string_view name) {
  return args.has(name) ? args.all(name) : std::vector<std::string>();
}

constexpr std::size_t kEnvironmentFileBytes = std::size_t{1} << 20;

// A variable given by itself counts more than one of a file.
Result<std::vector<AskedVariable>> asked_variables(const Arguments& args) {
  std::vector<AskedVariable> all;
  for (const std::string& path : list_of(args, "env-file")) {
    std::string text = WARREN_TRY(read_host_file(path, kEnvironmentFileBytes).within("--env-file"));
    std::vector<AskedVariable> some = WARREN_TRY(parse_environment_file(text, path).within("--env-file"));
    all.insert(all.end(), some.begin(), some.end());
  }
  for (const std::string& word : list_of(args, "env")) {
    AskedVariable one = WARREN_TRY(parse_variable(word).within("--env"));
    all.push_back(std::move(one));
  }
  return all;
}

Result<NetworkChoice> asked_network(const Arguments& args) {
  std::vector<std::string> words = list_of(args, "net");
  if (args.has("no-network")) {
    if (!words.empty()) return Error(Code::kInvalid, "--no-network and --net cannot be used together");
    words = {"none"};
  }
  if (words.empty()) return NetworkChoice{};
  return parse_network(words).within("--net");
}

// Fails with the exit status of our own failures, which differs from the command's.
Exit refuse_run(Context& context, const Error& error) {
  report_failure(context, error);
  return static_cast<Exit>(kOwnFailure);
}

Result<Exit> run_run(Context& context, const Arguments& args) {
  if (args.has("keep") && args.has("discard")) return refuse(context, "--keep and --discard cannot be used together");
  RunOptions options;
  options.session = args.find("session");
  if (options.session) options.session = std::string(session_id_of(*options.session));
  options.base = args.find("base");
  options.allow = list_of(args, "allow");
  options.read = list_of(args, "read");
  options.hide = list_of(args, "hide");
  if (args.has("no-default-allows")) options.default_allows = DefaultAllows::kNone;
  Result<NetworkChoice> network = asked_network(args);
  if (!network.ok()) return refuse_run(context, network.error());
  options.network = *std::move(network);
  options.has_asked_for_network = args.has("net") || args.has("no-network");
  Result<std::vector<AskedVariable>> variables = asked_variables(args);
  if (!variables.ok()) return refuse_run(context, variables.error());
  options.variables = *std::move(variables);
  options.passthrough = args.has("passthrough");
  options.at_end = args.has("keep") ? AtEnd::kKeep : args.has("discard") ? AtEnd::kDiscard : AtEnd::kKeepIfChanged;
  options.command = list_of(args, "COMMAND");
  if (options.command.empty() && is_terminal(context.input)) options.command = {shell_of_user()};
  return run_and_report(context, options, args.has("walls") ? ShowWalls::kYes : ShowWalls::kNo);
}

}  // namespace

Command make_run() {
  return {
      .name = "run",
      .summary = "Run a command in a sandbox, on a copy-on-write view of a directory",
      .details =
          "The command sees the base directory and can change it, but its changes are stored in a session in "
          "~/.agentfs/run. Inspect them with `warren diff`, write them to the base with `warren apply`, or drop them "
          "with `warren discard`. Everything else is read-only, secrets in your home directory are hidden, and /tmp "
          "is private. Of your environment it gets what concerns the terminal, the language, tools and proxies, and "
          "the sign-in variables of the agent that is run. The exit status is the command's; 125 if Warren itself "
          "fails, 126 if the command cannot be "
          "executed, 127 if it is not found, 128 plus the signal number if a signal ended it. Words after COMMAND "
          "are passed to it.",
      .positionals = {{.name = "COMMAND",
                       .help = "the program and its arguments [default: your shell]",
                       .times = Times::kAnyCommand}},
      .options =
          {{.name = "session",
            .value = "ID",
            .help = "join or resume this session, or create it",
            .suggest = Suggest::kSessions},
           {.name = "base",
            .value = "DIR",
            .help = "the directory to work on [default: the current one]",
            .suggest = Suggest::kHostDirs},
           {.name = "allow",
            .value = "PATH",
            .help = "let the command write to PATH directly, without copy-on-write",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "read",
            .value = "PATH",
            .help = "let the command read PATH, which is hidden otherwise",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "hide",
            .value = "PATH",
            .help = "hide PATH from the command",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "env",
            .value = "NAME[=VALUE]",
            .help = "pass this variable of your environment, or set it",
            .is_list = true},
           {.name = "env-file",
            .value = "FILE",
            .help = "pass or set the variables in FILE, one NAME[=VALUE] in a line",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "net",
            .value = "HOST",
            .help = "let the command reach only HOST, *.HOST, HOST:PORT, an address, or a set of hosts (agents, npm, "
                    "pypi, crates, github, debian); or all, or none",
            .is_list = true},
           {.name = "no-network", .help = "the same as --net none: no network except a private loopback"},
           {.name = "no-default-allows", .help = "make only the base writable, not ~/.cache and other defaults"},
           {.name = "passthrough", .help = "read large files at the speed of the base; opening any file takes longer"},
           {.name = "keep", .help = "keep the session even if nothing changed"},
           {.name = "discard", .help = "delete the session and all its changes at the end"},
           {.name = "walls", .help = "print the sandbox's restrictions before the command starts"}},
      .subcommands = {},
      .handler = run_run};
}

}  // namespace warren::cli
