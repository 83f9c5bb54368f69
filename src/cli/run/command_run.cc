#include "cli/commands.h"
#include "cli/context.h"
#include "cli/run/run_report.h"
#include "os/terminal.h"
#include "sandbox/enter.h"

namespace warren::cli {
namespace {

std::vector<std::string> list_of(const Arguments& args, std::string_view name) {
  return args.has(name) ? args.all(name) : std::vector<std::string>();
}

Result<Exit> run_run(Context& context, const Arguments& args) {
  if (args.has("keep") && args.has("discard")) return refuse(context, "--keep and --discard do not go together");
  RunOptions options;
  options.session = args.find("session");
  options.base = args.find("base");
  options.allow = list_of(args, "allow");
  options.read = list_of(args, "read");
  options.hide = list_of(args, "hide");
  if (args.has("no-default-allows")) options.default_allows = DefaultAllows::kNone;
  options.has_network = !args.has("no-network");
  options.passthrough = args.has("passthrough");
  options.at_end = args.has("keep") ? AtEnd::kKeep : args.has("discard") ? AtEnd::kDiscard : AtEnd::kKeepIfChanged;
  options.command = list_of(args, "COMMAND");
  if (options.command.empty()) {
    if (!is_terminal(context.input)) {
      context.err.line("warren: no command was given, and a shell needs a terminal\nhint: warren run -- COMMAND");
      return static_cast<Exit>(kOwnFailure);
    }
    options.command = {shell_of_user()};
  }
  return run_and_report(context, options, args.has("walls") ? ShowWalls::kYes : ShowWalls::kNo);
}

}  // namespace

Command make_run() {
  return {
      .name = "run",
      .summary = "Run a command on a copy of your files that it cannot get out of",
      .details =
          "The base directory is copy-on-write: the command sees and changes it, and the changes go to a session "
          "in ~/.agentfs/run, which `warren diff`, `warren apply` and `warren discard` take from there. Everything "
          "else is read-only, secrets in your home directory are hidden, and /tmp is its own. The exit status is "
          "the command's; 125 when Warren itself fails, 126 when the command cannot be run, 127 when there is none "
          "of that name, 128 and the signal's number after a signal. Everything after COMMAND belongs to it.",
      .positionals = {{.name = "COMMAND",
                       .help = "the program and its arguments (default: your shell)",
                       .times = Times::kAnyCommand}},
      .options = {{.name = "session", .value = "ID", .help = "join this session, go on with it, or call it that"},
                  {.name = "base",
                   .value = "DIR",
                   .help = "the directory to work on (default: this one)",
                   .suggest = Suggest::kHostDirs},
                  {.name = "allow",
                   .value = "PATH",
                   .help = "let it write to PATH itself: not copy-on-write, changes are real at once",
                   .suggest = Suggest::kHostFiles,
                   .is_list = true},
                  {.name = "read",
                   .value = "PATH",
                   .help = "let it read PATH, which is hidden otherwise",
                   .suggest = Suggest::kHostFiles,
                   .is_list = true},
                  {.name = "hide",
                   .value = "PATH",
                   .help = "show nothing of PATH",
                   .suggest = Suggest::kHostFiles,
                   .is_list = true},
                  {.name = "no-network", .help = "no network but its own loopback"},
                  {.name = "no-default-allows", .help = "nothing but the base is writable (~/.cache and others are)"},
                  {.name = "passthrough",
                   .help = "read large files as fast as from the base; opening any file costs more"},
                  {.name = "keep", .help = "keep the session, also if nothing changed"},
                  {.name = "discard", .help = "throw the session away at the end, with everything in it"},
                  {.name = "walls", .help = "say which walls stand, before the command starts"}},
      .subcommands = {},
      .handler = run_run};
}

}  // namespace warren::cli
