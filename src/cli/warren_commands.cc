#include "cli/commands.h"
#include "cli/syntax/examples.h"

namespace warren::cli {

Command make_warren() {
  Command root;
  root.name = "warren";
  root.summary = "The filesystem for agents: one file per agent, everything on the record";
  root.options = {
      {.name = "directory",
       .letter = 'C',
       .value = "DIR",
       .help = "change to DIR first",
       .suggest = Suggest::kHostDirs},
      {.name = "utc", .help = "show times in UTC, not in the local zone"},
      {.name = "bytes", .help = "show sizes in bytes, not as 1.5 MiB"},
      {.name = "version", .letter = 'V', .help = "print the version"},
  };
  root.subcommands.push_back(make_init());
  root.subcommands.push_back(make_agents());
  root.subcommands.push_back(make_delete());
  root.subcommands.push_back(make_fs());
  root.subcommands.push_back(make_kv());
  root.subcommands.push_back(make_vfs());
  root.subcommands.push_back(make_policy());
  root.subcommands.push_back(make_context());
  root.subcommands.push_back(make_tool());
  root.subcommands.push_back(make_audit());
  root.subcommands.push_back(make_trust());
  root.subcommands.push_back(make_host());
  root.subcommands.push_back(make_serve());
  root.subcommands.push_back(make_mcp());
  root.subcommands.push_back(make_run());
  root.subcommands.push_back(make_sessions());
  root.subcommands.push_back(make_home());
  root.subcommands.push_back(make_mount());
  root.subcommands.push_back(make_umount());
  root.subcommands.push_back(make_exec());
  root.subcommands.push_back(make_ps());
  root.subcommands.push_back(make_prune());
  root.subcommands.push_back(make_diff());
  root.subcommands.push_back(make_review());
  root.subcommands.push_back(make_apply());
  root.subcommands.push_back(make_undo());
  root.subcommands.push_back(make_discard());
  root.subcommands.push_back(make_merge());
  root.subcommands.push_back(make_relay());
  root.subcommands.push_back(make_timeline());
  root.subcommands.push_back(make_tools());
  root.subcommands.push_back(make_info());
  root.subcommands.push_back(make_key());
  root.subcommands.push_back(make_encrypt());
  root.subcommands.push_back(make_rekey());
  root.subcommands.push_back(make_decrypt());
  root.subcommands.push_back(make_quota());
  root.subcommands.push_back(make_sql());
  root.subcommands.push_back(make_checkpoint());
  root.subcommands.push_back(make_log());
  root.subcommands.push_back(make_fork());
  root.subcommands.push_back(make_backup());
  root.subcommands.push_back(make_restore());
  root.subcommands.push_back(make_fsck());
  root.subcommands.push_back(make_migrate());
  root.subcommands.push_back(make_completions());
  root.subcommands.push_back(make_complete());
  root.subcommands.push_back(make_man());
  root.subcommands.push_back(make_version());
  root.subcommands.push_back(make_help());
  add_examples_to(root);
  return root;
}

}  // namespace warren::cli
