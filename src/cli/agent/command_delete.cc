// delete: removes an agent.
#include <fmt/format.h>

#include "agent/copies/create.h"
#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/apply/apply_record.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

Result<bool> agrees_to_delete(Context& context, const std::string& path) {
  if (!is_terminal(context.input)) {
    return Error(Code::kNotPermitted,
                 fmt::format("deleting {} needs --yes when standard input is not a terminal", quote(path)));
  }
  context.err.print("Delete {} and everything in it? [y/N] ", context.err.name(path));
  std::string answer(64, '\0');
  std::size_t got = WARREN_TRY(read_some(context.input, as_mutable_bytes(answer)));
  answer.resize(got);
  return answer.starts_with('y') || answer.starts_with('Y');
}

Result<Exit> run_delete_agent(Context& context, const Arguments& args) {
  std::string path = WARREN_TRY(locate_agent(args.get("ID")));
  Result<std::string> sessions = agents_home();
  if (sessions.ok() && path.starts_with(*sessions + "/run/")) {
    return Error(Code::kInvalid, fmt::format("{} is a session", quote(args.get("ID"))),
                 "`warren sessions delete` deletes it, with its folder");
  }
  if (!args.has("yes") && !WARREN_TRY(agrees_to_delete(context, path))) {
    context.err.line("nothing was deleted");
    return Exit::kFailed;
  }
  WARREN_TRY(check_none_unfinished(path, args.get("ID")));
  WARREN_TRY(delete_agent(path, context.clock));
  context.out.print("deleted {}\n", context.out.name(path));
  return Exit::kOk;
}

}  // namespace

Command make_delete() {
  return {.name = "delete",
          .summary = "Delete an agent and everything in it",
          .details =
              "Removes the agent file with what belongs to it (-wal, -shm, its search index), and nothing of its "
              "base. An agent that is open or mounted stays. `warren sessions delete` deletes sessions.",
          .positionals = {id_argument()},
          .options = {{.name = "yes", .letter = 'y', .help = "do not ask"}},
          .subcommands = {},
          .handler = run_delete_agent};
}

}  // namespace warren::cli
