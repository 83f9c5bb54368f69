#include <fmt/format.h>

#include "agent/audit_trail.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"

namespace warren::cli {
namespace {

Result<Exit> run_backup(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "backup"));
  const std::string& file = args.get("FILE");
  WARREN_TRY(record_reading(*agent, "backup", {}, file));
  WARREN_TRY(agent->backup_to(file).within(fmt::format("backup to {}", quote(file))));
  if (args.has("json")) {
    Json json;
    set_bytes(json, "path", agent->path());
    set_bytes(json, "backup", file);
    context.out.json(json);
  } else {
    context.out.print("{} is a copy of {}\n", context.out.name(file), context.out.name(agent->path()));
  }
  return Exit::kOk;
}

}  // namespace

Command make_backup() {
  return {.name = "backup",
          .summary = "Copy an agent to a new file, even while it is in use",
          .details = "",
          .positionals = {id_argument(),
                          {.name = "FILE", .help = "the copy; must not exist", .suggest = Suggest::kHostFiles}},
          .options = {json_option()},
          .subcommands = {},
          .handler = run_backup};
}

}  // namespace warren::cli
