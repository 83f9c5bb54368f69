// Every command's table, each made in the file that has its handler.
#pragma once

#include "cli/syntax/args.h"

namespace warren::cli {

Command make_warren();   // the whole of `warren`
Command make_agentfs();  // the whole of `agentfs`

Command make_init();
Command make_agents();
Command make_delete();
Command make_fs();
Command make_kv();
Command make_vfs();
Command make_policy();
Command make_context();
Command make_tool();
Command make_trust();
Command make_host();
Command make_serve();
Command make_mcp();
Command make_timeline();
Command make_tools();
Command make_quota();
Command make_audit();
Command make_info();
Command make_key();
Command make_rekey();
Command make_encrypt();
Command make_decrypt();
Command make_migrate();
Command make_fsck();
Command make_checkpoint();
Command make_log();
Command make_fork();
Command make_backup();
Command make_restore();
Command make_sql();
Command make_run();
Command make_sessions();
Command make_home();
Command make_relay();
Command make_mount();
Command make_umount();
Command make_exec();
Command make_ps();
Command make_prune();
Command make_diff();
Command make_apply();
Command make_discard();
Command make_merge();
Command make_review();
Command make_undo();
Command make_agentfs_diff();
Command make_completions();
Command make_complete();
Command make_man();
Command make_version();
Command make_help();

Command make_vfs_query();  // of `vfs`

// The subcommands of `fs`.
std::vector<Command> make_fs_readers();
Command make_fs_grep();
Command make_fs_edit();
std::vector<Command> make_fs_writers();
std::vector<Command> make_fs_transfers();

inline Positional id_argument() {
  return {.name = "ID", .help = "the agent: an id in ./.agentfs, or the path of its file", .suggest = Suggest::kAgents};
}
inline Option json_option() { return {.name = "json", .help = "print JSON"}; }

}  // namespace warren::cli
