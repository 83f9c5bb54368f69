#include "agent/copies/create.h"
#include "agent/record/audit_trail.h"
#include "cli/agent/copy_faults.h"
#include "cli/agent/encrypt_files.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"

namespace warren::cli {
namespace {

Result<Exit> run_restore(Context& context, const Arguments& args) {
  std::vector<std::string> patterns = list_patterns_of(context, args.get("ID"));
  RestoreOptions options{.id_or_path = args.get("ID"),
                         .file = args.get("FILE"),
                         .replace = args.has("force") ? Replace::kYes : Replace::kNo,
                         .faulty = faulty_copy(args)};
  RestoredAgent restored = WARREN_TRY(restore_agent(options, context.clock).within("restore"));
  const std::string& path = restored.path;
  warn_if_not(context, record_afterwards(path, "restore", options.file, context.clock));
  if (args.has("json")) {
    Json json;
    set_bytes(json, "path", path);
    set_bytes(json, "backup", options.file);
    set_faults(json, restored.faults);
    context.out.json(json);
  } else {
    context.out.print("restored {} from {}\n", context.out.name(path), context.out.name(options.file));
  }
  warn_of_taken_faults(context, restored.faults, options.id_or_path);
  return warn_of_lost_patterns(context, options.id_or_path, patterns);
}

}  // namespace

Command make_restore() {
  return {.name = "restore",
          .summary = "Restore an agent from a backup",
          .details = "The backup is checked first. An agent that another process has open is not replaced.",
          .positionals = {id_argument(), {.name = "FILE", .help = "the backup", .suggest = Suggest::kHostFiles}},
          .options = {{.name = "force", .letter = 'f', .help = "replace the agent if it exists; its content is lost"},
                      unchecked_option(),
                      json_option()},
          .subcommands = {},
          .handler = run_restore};
}

}  // namespace warren::cli
