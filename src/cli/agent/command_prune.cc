#include <unistd.h>

#include "agent/running.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "fuse/mount_point.h"

namespace warren::cli {
namespace {

Result<Exit> prune_mounts(Context& context, const Arguments&) {
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  int removed = 0;
  for (const MountedFs& mount : mounts) {
    if (!is_dead_mount(mount.dir)) continue;
    Status done = unmount_fuse(mount.dir, Unmount::kDetach);
    if (!done.ok()) {
      context.err.line(context.err.name(done.error().message()));
      continue;
    }
    context.out.print("unmounted {} (was {})\n", context.out.name(mount.dir), context.out.name(mount.source));
    ++removed;
    // Only the directory that `exec` created for its command; any other is not empty, or not ours to remove.
    if (mount.dir.find("/warren-exec-") != mount.dir.npos) ::rmdir(mount.dir.c_str());
  }
  WARREN_TRY(list_running());  // removes the entries of dead processes
  if (removed == 0) context.out.line("no dead mounts");
  return Exit::kOk;
}

}  // namespace

Command make_prune() {
  Command mounts{.name = "mounts",
                 .summary = "Remove mounts whose process is dead",
                 .details = "",
                 .positionals = {},
                 .options = {},
                 .subcommands = {},
                 .handler = prune_mounts};
  return {.name = "prune",
          .summary = "Clean up after killed processes",
          .details = "",
          .positionals = {},
          .options = {},
          .subcommands = {mounts},
          .handler = nullptr};
}

}  // namespace warren::cli
