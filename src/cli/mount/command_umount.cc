#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "agent/running.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "fuse/mount_point.h"
#include "os/host_files.h"
#include "session/served_agent.h"

namespace warren::cli {
namespace {

constexpr std::chrono::seconds kEndWait{30};
constexpr std::chrono::milliseconds kStep{5};

// The server flushes everything and closes the agent; only then is the agent a single file.
Status wait_for_server(const Running& server) {
  auto until = std::chrono::steady_clock::now() + kEndWait;
  while (liveness_of(server.process) == Liveness::kAlive) {
    if (std::chrono::steady_clock::now() > until) {
      return Error(Code::kTimeout, fmt::format("process {} has unmounted but is still running", server.process.pid),
                   "a program still has files open there; the process ends once they are closed");
    }
    std::this_thread::sleep_for(kStep);
  }
  return Ok{};
}

Result<Exit> run_umount(Context& context, const Arguments& args) {
  const std::string& given = args.get("DIR");
  bool dead = is_dead_mount(given);
  std::string dir = WARREN_TRY(resolve_mount_point(given).within(fmt::format("unmount {}", quote(given))));
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  bool is_ours = std::any_of(mounts.begin(), mounts.end(), [&](const MountedFs& m) { return m.dir == dir; });
  if (!is_ours) {
    return Error(Code::kInvalid, fmt::format("no agent is mounted on {}", quote(given)),
                 "`warren mount` lists mounted agents");
  }
  std::vector<Running> running = WARREN_TRY(list_running());
  Status done = unmount_fuse(dir, args.has("lazy") || dead ? Unmount::kDetach : Unmount::kIfUnused);
  if (!done.ok() && done.error().code() == Code::kBusy) {
    return Error(Code::kBusy, fmt::format("{} is in use", quote(given)),
                 "end the programs that have open files or their working directory there (`fuser -vm DIR` lists them), "
                 "or unmount with --lazy");
  }
  WARREN_TRY(std::move(done));
  if (args.has("lazy")) return Exit::kOk;
  for (const Running& server : running) {
    if (server.dir != dir || server.kind != "mount") continue;
    WARREN_TRY(wait_for_server(server));
    if (std::optional<std::string> warning = find_log_warning(server.agent)) context.err.line("warren: " + *warning);
  }
  return Exit::kOk;
}

}  // namespace

Command make_umount() {
  return {.name = "umount",
          .summary = "Unmount an agent",
          .details = "Returns once everything is written and the agent is a single file again.",
          .positionals = {{.name = "DIR", .help = "the directory it is mounted on", .suggest = Suggest::kHostDirs}},
          .options = {{.name = "lazy",
                       .letter = 'l',
                       .help = "unmount even while in use: programs keep their open files until they close them"}},
          .subcommands = {},
          .handler = run_umount};
}

}  // namespace warren::cli
