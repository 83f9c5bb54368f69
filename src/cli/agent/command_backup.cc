#include <fmt/format.h>

#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "cli/agent/copy_faults.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"

namespace warren::cli {
namespace {

Result<Exit> run_backup(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "backup"));
  const std::string& file = args.get("FILE");
  WARREN_TRY(record_reading(*agent, "backup", {}, file));
  CopyFaults faults = WARREN_TRY(back_up(*agent, file, context.clock).within(fmt::format("backup to {}", quote(file))));
  if (args.has("json")) {
    Json json;
    set_bytes(json, "path", agent->path());
    set_bytes(json, "backup", file);
    set_faults(json, faults);
    context.out.json(json);
  } else {
    context.out.print("{} is a copy of {}\n", context.out.name(file), context.out.name(agent->path()));
  }
  return warn_of_stored_faults(context, faults, args.get("ID"), "warren restore");
}

}  // namespace

Command make_backup() {
  return {
      .name = "backup",
      .summary = "Copy an agent to a new file, even while it is in use",
      .details = "The copy is checked as `restore` checks it. A copy with faults is kept, and the exit status is 1.",
      .positionals = {id_argument(),
                      {.name = "FILE", .help = "the copy; must not exist", .suggest = Suggest::kHostFiles}},
      .options = {json_option()},
      .subcommands = {},
      .handler = run_backup};
}

}  // namespace warren::cli
