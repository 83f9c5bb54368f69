#include "agent/locate.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "os/files/host_files.h"
#include "session/served_agent.h"

namespace warren::cli {
namespace {

Result<Exit> run_exec(Context& context, const Arguments& args) {
  std::string located = WARREN_TRY(locate_agent(args.get("ID")));
  if (located == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory cannot be mounted");
  std::string path = WARREN_TRY(canonical_host_path(located));
  int status = WARREN_TRY(run_in_agent(path, args.all("COMMAND"), context.clock));
  return static_cast<Exit>(status);
}

}  // namespace

Command make_exec() {
  return {.name = "exec",
          .summary = "Run a command inside an agent's files",
          .details =
              "Mounts the agent on a temporary directory, runs the command there, and unmounts it. The exit status is "
              "the command's. Words after COMMAND are passed to it.",
          .positionals = {id_argument(),
                          {.name = "COMMAND", .help = "the program and its arguments", .times = Times::kCommand}},
          .options = {},
          .subcommands = {},
          .handler = run_exec};
}

}  // namespace warren::cli
