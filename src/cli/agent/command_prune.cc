#include <unistd.h>

#include "agent/running.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "fuse/mount_point.h"

namespace warren::cli {
namespace {

Result<Exit> prune_mounts(Context& context, const Arguments&) {
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  int taken = 0;
  for (const MountedFs& mount : mounts) {
    if (!is_dead_mount(mount.dir)) continue;
    Status done = unmount_fuse(mount.dir, Unmount::kDetach);
    if (!done.ok()) {
      context.err.line(context.err.name(done.error().message()));
      continue;
    }
    context.out.print("took away {} (was {})\n", context.out.name(mount.dir), context.out.name(mount.source));
    ++taken;
    // The directory that `exec` made for its command; any other is not empty, or not ours to remove.
    if (mount.dir.find("/warren-exec-") != mount.dir.npos) ::rmdir(mount.dir.c_str());
  }
  WARREN_TRY(list_running());  // removes the entries of the dead
  if (taken == 0) context.out.line("no dead mounts");
  return Exit::kOk;
}

}  // namespace

Command make_prune() {
  Command mounts{.name = "mounts",
                 .summary = "Take away mounts whose process is dead",
                 .details = "",
                 .positionals = {},
                 .options = {},
                 .subcommands = {},
                 .handler = prune_mounts};
  return {.name = "prune",
          .summary = "Clean up what killed processes left",
          .details = "",
          .positionals = {},
          .options = {},
          .subcommands = {mounts},
          .handler = nullptr};
}

}  // namespace warren::cli
