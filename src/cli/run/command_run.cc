#include <fmt/format.h>

#include "agent/locate.h"
#include "changes/pinned/linked_worktree.h"
#include "cli/agent/key_options.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/run/run_report.h"
#include "cli/run/run_settings.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"
#include "os/terminal.h"
#include "sandbox/enter.h"
#include "session/interactive_shell.h"

namespace warren::cli {
namespace {

std::vector<std::string> list_of(const Arguments& args, std::string_view name) {
  return args.has(name) ? args.all(name) : std::vector<std::string>();
}

// Fails with the exit status of our own failures, which differs from the command's.
Exit refuse_run(Context& context, const Error& error) {
  report_failure(context, error);
  return static_cast<Exit>(kOwnFailure);
}

std::optional<std::string> find_repository_here() {
  Result<std::string> here = canonical_host_path(".");
  Result<std::string> home = home_directory();
  if (home.ok()) home = canonical_host_path(*home);
  if (!here.ok() || !home.ok()) return std::nullopt;
  return find_repository_top(*here, *home);
}

Result<Exit> run_run(Context& context, const Arguments& args) {
  if (args.has("keep") && args.has("discard")) return refuse(context, "--keep and --discard cannot be used together");
  bool runs_otherwise = args.has("quiet") || args.has("keep") || args.has("discard") || args.has("at");
  if (args.has("walls") && runs_otherwise)
    return refuse(context, "--walls cannot be used with --quiet, --keep, --discard or --at: it runs nothing");
  RunOptions options;
  options.session = args.find("session");
  if (options.session) options.session = std::string(session_id_of(*options.session));
  options.base = args.find("base");
  options.allow = list_of(args, "allow");
  options.read = list_of(args, "read");
  options.hide = list_of(args, "hide");
  if (args.has("no-default-allows") && args.has("default-allows"))
    return refuse(context, "--default-allows and --no-default-allows cannot be used together");
  if (args.has("no-default-allows")) options.default_allows = DefaultAllows::kNone;
  options.has_asked_for_default_allows = args.has("default-allows");
  if (args.has("no-namespace")) {
    options.has_namespace = false;
    options.has_asked_for_namespace = true;
  }
  if (!options.base) options.repository = find_repository_here();
  Status settings = take_settings(args, options);
  if (!settings.ok()) return refuse_run(context, settings.error());
  options.passthrough = args.has("passthrough");
  Result<std::optional<Encryption>> encryption = find_encryption(args);
  if (!encryption.ok()) return refuse_run(context, encryption.error());
  options.encryption = *encryption;
  if (args.has("at") && !options.session) return refuse(context, "--at needs --session");
  options.at = args.find("at");
  if (auto text = args.find("checkpoint"); text == "each-tool-call") {
    options.checkpoint_tool_calls = true;
  } else if (text) {
    constexpr std::string_view kEvery = "every=";
    Result<std::chrono::milliseconds> time =
        text->starts_with(kEvery)
            ? parse_duration(std::string_view(*text).substr(kEvery.size()))
            : Result<std::chrono::milliseconds>(Error(Code::kInvalid, "it is neither every=TIME nor each-tool-call"));
    if (time.ok() && *time < std::chrono::seconds(1)) time = Error(Code::kInvalid, "the shortest time is 1s");
    if (!time.ok()) return refuse(context, fmt::format("--checkpoint {}: {}", quote(*text), time.error().message()));
    options.checkpoint_every = *time;
  }
  options.at_end = args.has("keep") ? AtEnd::kKeep : args.has("discard") ? AtEnd::kDiscard : AtEnd::kKeepIfChanged;
  options.command = list_of(args, "COMMAND");
  options.shows_walls_only = args.has("walls");
  if (options.command.empty() && options.shows_walls_only) options.command = {"true"};
  if (is_terminal(context.input)) {
    options.marks_prompt = options.command.empty() || is_interactive_shell(options.command);
    if (options.command.empty()) options.command = {shell_of_user()};
  }
  if (args.has("quiet")) return run_quietly(context, options);
  return run_and_report(context, options, args.has("walls") ? ShowWalls::kYes : ShowWalls::kNo);
}

}  // namespace

Command make_run() {
  Command run{
      .name = "run",
      .summary = "Run a command in a sandbox, on a copy-on-write view of a directory",
      .details =
          "The command sees the base directory and can change it, but its changes are stored in a session in "
          "~/.agentfs/run. Inspect them with `warren diff`, write them to the base with `warren apply`, or drop them "
          "with `warren discard`. Your home directory is copy-on-write too, in a layer that all runs share (`warren "
          "home`), and shows only your tools and settings. Everything else is read-only, and /tmp is private. From "
          "your environment it gets the variables for the terminal, the language, tools and proxies, and the sign-in "
          "variables of the agent that is run. The exit status is the command's; 125 if Warren itself fails, 126 if "
          "the command cannot be "
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
            .help = "the directory to work on [default: the git repository around the current one, or that itself]",
            .suggest = Suggest::kHostDirs},
           {.name = "allow",
            .value = "PATH",
            .help = "let the command write to PATH directly, without copy-on-write",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "read",
            .value = "PATH",
            .help = "let the command read PATH, which would otherwise be hidden",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "hide",
            .value = "PATH",
            .help = "hide PATH from the command, in later runs of the session too",
            .suggest = Suggest::kHostFiles,
            .is_list = true},
           {.name = "home",
            .value = "VIEW",
            .help = "what the command sees of your home directory: tools and settings, or all but secrets",
            .choices = {"tools", "all"}},
           {.name = "home-layer",
            .value = "SCOPE",
            .help = "where changes to your home directory are kept: one layer for all runs, or one for this base",
            .choices = {"shared", "project"}},
           {.name = "no-default-allows",
            .help =
                "do not write sign-in files of known agents to your home directory, in later runs of the session too"},
           {.name = "default-allows", .help = "write them again, after a run of the session that did not"},
           {.name = "passthrough", .help = "read large files at the speed of the base; opening any file takes longer"},
           {.name = "checkpoint",
            .value = "every=TIME|each-tool-call",
            .help = "take a checkpoint every so often (5m) if something has changed, or after each tool call"},
           {.name = "at", .value = "WHICH", .help = "go back to this checkpoint of the session first"},
           {.name = "keep", .help = "keep the session even if nothing changed"},
           {.name = "discard", .help = "delete the session and all its changes at the end"},
           {.name = "quiet", .letter = 'q', .help = "print nothing about the session, except failures"},
           {.name = "walls",
            .help = "print the sandbox's restrictions, as they would be for COMMAND, and run nothing"}},
      .subcommands = {},
      .handler = run_run};
  for (const std::vector<Option>& more :
       {environment_options(), network_options(), limit_options(), namespace_options(), encrypt_options()}) {
    run.options.insert(run.options.end(), more.begin(), more.end());
  }
  return run;
}

}  // namespace warren::cli
