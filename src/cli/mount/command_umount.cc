#include <cerrno>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/running.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "fuse/mount_point.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"
#include "os/files/mount_table.h"
#include "os/files/mount_users.h"
#include "session/served_agent.h"
#include "text/nearest.h"

namespace warren::cli {
namespace {

constexpr std::chrono::seconds kEndWait{30};
constexpr std::chrono::seconds kMomentWait{2};
constexpr std::chrono::milliseconds kStep{5};

// The server flushes everything and closes the agent; only then is the agent a single file.
Status wait_for_server(const Running& server) {
  auto until = std::chrono::steady_clock::now() + kEndWait;
  while (liveness_of(server.process) == Liveness::kAlive) {
    if (std::chrono::steady_clock::now() > until) {
      return Error(Code::kTimeout, fmt::format("process {} has unmounted but is still running", server.process.pid),
                   "a program still has files open there, or another mount namespace (of a container, or a process "
                   "started with `unshare`) still has the mount; the process ends once they are closed or gone");
    }
    std::this_thread::sleep_for(kStep);
  }
  return Ok{};
}

// The server has just written it, if there is any.
std::string find_lost(const Running& server) {
  Result<std::vector<Running>> running = list_running();
  if (!running.ok()) return "";
  for (const Running& one : *running) {
    if (one.process == server.process) return one.lost;
  }
  return "";
}

// Asks the mount to store everything, before it is unmounted: afterwards nothing could be done about an error. A mount
// whose agent file has lost its name (kStale) is rescued when it ends.
Status store_everything(const std::string& dir, const Running& server) {
  Fd root(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.is_open()) return Ok{};  // another user's mount
  bool is_stored = ::syncfs(root.get()) == 0 && ::fsync(root.get()) == 0;
  if (is_stored || errno == ESTALE || errno == EROFS) return Ok{};
  int error = errno;
  Result<std::optional<struct stat>> file = find_host_file(server.agent);
  if (error == ENOSPC && file.ok() && !*file) {
    return Error(Code::kNoSpace,
                 fmt::format("the agent file {} was deleted or moved, and the disk has no room to save what is in {}",
                             quote(server.agent), quote(dir)),
                 "it is still mounted; free some space and unmount again, or give up its content with --force");
  }
  std::string lost = find_lost(server);
  if (!lost.empty()) {
    return Error(Code::kIo, std::move(lost),
                 "it is still mounted, and the kernel may still have them: copy the file to another place if they "
                 "matter, then unmount with --force");
  }
  Error why = system_error(
      error, fmt::format("the latest changes in {} cannot be stored in {}", quote(dir), quote(server.agent)));
  return Error(why.code(), why.message(),
               "it is still mounted; solve that and unmount again, or give up these changes with --force");
}

constexpr std::size_t kUsersShown = 8;

std::optional<std::string> find_mounted_inside(const std::string& dir) {
  std::string inner = dir == "/" ? dir : dir + "/";
  Result<std::vector<MountEntry>> mounts = read_mount_table();
  for (MountEntry& mount : mounts.ok() ? *mounts : std::vector<MountEntry>()) {
    if (mount.dir.starts_with(inner)) return std::move(mount.dir);
  }
  return std::nullopt;
}

// Names what keeps it mounted, as far as we may see it.
Error is_in_use(const std::string& given, const std::vector<MountUser>& users) {
  std::string busy = fmt::format("{} is in use", quote(given));
  if (users.empty()) {
    std::string others = ::geteuid() == 0 ? "" : ", which may be other users'";
    return {Code::kBusy, std::move(busy),
            fmt::format("end the programs that have open files or their working directory there{} (as root, `fuser -vm "
                        "DIR` lists them), or unmount with --lazy",
                        others)};
  }
  std::string names;
  for (std::size_t i = 0; i < users.size() && i < kUsersShown; ++i) {
    (names += i == 0 ? "" : ", ") += fmt::format("{} (process {})", quote(users[i].name), users[i].pid);
  }
  if (users.size() > kUsersShown) names += fmt::format(" and {} more", users.size() - kUsersShown);
  return {
      Code::kBusy, fmt::format("{} by {}", busy, names),
      fmt::format("end {} or leave the directory there, or unmount with --lazy", users.size() == 1 ? "it" : "them")};
}

// The kernel also calls a mount busy while a call that names it is under way (`df`, or `warren mount`, which lists all
// mounts), while somebody reads /proc/PID/fd of the program that closes the last file there, and for a moment after the
// end of a program, since files that it had mapped or given to io_uring are closed later. None of that can be seen in
// /proc, and it is soon over.
Status unmount_if_unused(const std::string& given, const std::string& dir) {
  auto until = std::chrono::steady_clock::now() + kMomentWait;
  for (;;) {
    Status done = unmount_fuse(dir, Unmount::kIfUnused);
    if (done.ok() || done.error().code() != Code::kBusy) return done;
    if (std::optional<std::string> inside = find_mounted_inside(dir)) {
      return Error(Code::kBusy, fmt::format("{} is in use: something is mounted at {}", quote(given), quote(*inside)),
                   "unmount that first");
    }
    std::vector<MountUser> users = list_mount_users(dir);
    if (!users.empty() || std::chrono::steady_clock::now() > until) return is_in_use(given, users);
    std::this_thread::sleep_for(kStep);
  }
}

Error is_unknown(const std::string& given, const std::vector<Running>& running) {
  std::vector<std::string_view> known;
  std::string elsewhere;  // the directory of a mount with exactly this name, seen from another directory
  for (const Running& one : running) {
    std::string_view name = base_name(one.agent);
    if (name.ends_with(".db")) name.remove_suffix(3);
    if (one.kind != "mount") continue;
    known.insert(known.end(), {name, base_name(one.dir)});
    if (given == name || given == base_name(one.dir)) elsewhere = one.dir;
  }
  std::string meant = elsewhere.empty() ? nearest(given, known) : elsewhere;
  return {Code::kNotFound, fmt::format("there is no directory and no agent {}", quote(given)),
          meant.empty() ? "`warren mount` lists mounts" : fmt::format("did you mean {}?", quote(meant))};
}

// The directory that an agent is mounted on, if `given` is not a directory but an agent's id. kConflict if there are
// several.
Result<std::string> mount_of(const std::string& given) {
  if (!is_agent_id(session_id_of(given))) return given;
  Result<std::optional<struct stat>> there = find_host_link(given);
  if (!there.ok() || *there) return given;  // a mount that does not answer is a mount, too
  std::vector<Running> running = WARREN_TRY(list_running());
  Result<std::string> file = locate_agent(given);
  if (!file.ok()) return is_unknown(given, running);
  file = canonical_host_path(*file);
  if (!file.ok()) return given;
  std::vector<std::string> dirs;
  for (const Running& one : running) {
    Result<std::string> mounted = canonical_host_path(one.agent);
    if (one.kind == "mount" && mounted.ok() && *mounted == *file) dirs.push_back(one.dir);
  }
  if (dirs.size() == 1) return dirs.front();
  if (dirs.empty())
    return Error(Code::kNotFound, fmt::format("agent {} is not mounted", quote(given)), "`warren mount` lists mounts");
  return Error(Code::kConflict, fmt::format("agent {} is mounted {} times", quote(given), dirs.size()),
               "give a directory; `warren mount` lists them");
}

Result<Exit> run_umount(Context& context, const Arguments& args) {
  std::string given = args.get("DIR|ID");
  if (!is_dead_mount(given)) given = WARREN_TRY(mount_of(given));
  bool dead = is_dead_mount(given);
  std::string dir = WARREN_TRY(resolve_mount_point(given).within(fmt::format("unmount {}", quote(given))));
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  bool is_ours = std::any_of(mounts.begin(), mounts.end(), [&](const MountedFs& m) { return m.dir == dir; });
  if (!is_ours) {
    return Error(Code::kInvalid, fmt::format("no agent is mounted on {}", quote(given)),
                 "`warren mount` lists mounted agents");
  }
  std::vector<Running> running = WARREN_TRY(list_running());
  std::erase_if(running, [&](const Running& server) { return server.dir != dir || server.kind != "mount"; });
  bool checks = !args.has("lazy") && !args.has("force") && !dead;
  if (checks && !running.empty()) WARREN_TRY(store_everything(dir, running.back()));
  bool detaches = args.has("lazy") || dead;
  WARREN_TRY(detaches ? unmount_fuse(dir, Unmount::kDetach) : unmount_if_unused(given, dir));
  if (args.has("lazy")) return Exit::kOk;
  for (const Running& server : running) {
    WARREN_TRY(wait_for_server(server));
    std::vector<EndedBadly> failures = WARREN_TRY(take_failures(&server.process));
    for (const EndedBadly& failure : failures) return Error(Code::kIo, failure.message, failure.hint);
    if (std::optional<std::string> warning = find_log_warning(server.agent)) context.err.line("warren: " + *warning);
  }
  return Exit::kOk;
}

}  // namespace

Command make_umount() {
  return {
      .name = "umount",
      .summary = "Unmount an agent",
      .details =
          "Returns once everything is written and the agent is a single file again. Fails, and leaves it mounted, if "
          "the latest changes cannot be stored.",
      .positionals = {{.name = "DIR|ID",
                       .help = "the directory it is mounted on, or the agent's id",
                       .suggest = Suggest::kHostDirs}},
      .options = {{.name = "lazy",
                   .letter = 'l',
                   .help = "unmount even while in use: programs keep their open files until they close them"},
                  {.name = "force", .help = "unmount even if the latest changes cannot be stored: they are lost"}},
      .subcommands = {},
      .handler = run_umount};
}

}  // namespace warren::cli
