#include "cli/agentfs/agentfs_mount.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/running.h"
#include "base/path.h"
#include "cli/show/text.h"
#include "fuse/mount_point.h"
#include "os/files/host_files.h"
#include "session/served_agent.h"

namespace warren::cli {
namespace {

// The agent's ID for ".../.agentfs/ID.db"; for any other file its path.
std::string id_of(const std::string& source) {
  std::string_view path = source;
  bool is_listed = directory_of(path).ends_with("/.agentfs") && path.ends_with(".db");
  if (!is_listed) return source;
  std::string_view name = base_name(path);
  return std::string(name.substr(0, name.size() - 3));
}

Result<Exit> list_mounts(Context& context) {
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  if (mounts.empty()) {
    context.out.line("No agentfs filesystems mounted.");
    return Exit::kOk;
  }
  std::size_t id_columns = 2;
  std::size_t dir_columns = 10;
  for (const MountedFs& mount : mounts) {
    id_columns = std::max(id_columns, columns_of(id_of(mount.source)));
    dir_columns = std::max(dir_columns, columns_of(mount.dir));
  }
  context.out.print("{}  {}\n", pad_right("ID", id_columns), pad_right("MOUNTPOINT", dir_columns));
  for (const MountedFs& mount : mounts) {
    context.out.print("{}  {}\n", pad_right(context.out.name(id_of(mount.source)), id_columns),
                      pad_right(context.out.name(mount.dir), dir_columns));
  }
  return Exit::kOk;
}

std::uint32_t id_or(const Arguments& args, std::string_view name, std::uint32_t fallback) {
  return args.has(name) ? static_cast<std::uint32_t>(args.integer(name)) : fallback;
}

Result<Exit> run_mount(Context& context, const Arguments& args) {
  if (!args.has("ID_OR_PATH")) return list_mounts(context);
  WARREN_TRY(refuse_nfs(args.get("backend")));
  if (!args.has("MOUNTPOINT")) return Error(Code::kInvalid, "Mountpoint is required when mounting a filesystem");
  const std::string& dir = args.get("MOUNTPOINT");
  std::string located = WARREN_TRY(locate_for_agentfs(args.get("ID_OR_PATH")));
  std::optional<struct stat> there = WARREN_TRY(find_host_file(dir));
  if (!there && !is_dead_mount(dir))
    return Error(Code::kNotFound, fmt::format("Mountpoint does not exist: {}", printable(dir)));
  ServeOptions options;
  options.agent_path = WARREN_TRY(canonical_host_path(located));
  options.dir = WARREN_TRY(resolve_mount_point(dir));
  options.kind = "mount";
  options.command = fmt::format("agentfs mount {} {}", args.get("ID_OR_PATH"), dir);
  if (args.has("allow-root")) options.audience = MountFor::kRootToo;
  if (args.has("system")) options.audience = MountFor::kEveryone;
  options.auto_unmount = args.has("auto-unmount");
  options.session = {.uid = id_or(args, "uid", ::geteuid()), .gid = id_or(args, "gid", ::getegid())};
  WARREN_TRY(serve_agent(options, args.has("foreground") ? Foreground::kYes : Foreground::kNo, context.clock));
  return Exit::kOk;
}

Result<Exit> run_exec(Context& context, const Arguments& args) {
  std::string path = WARREN_TRY(locate_for_agentfs(args.get("ID_OR_PATH")));
  return run_in_agentfs(context, path, args.all("COMMAND"), args.get("backend"));
}

Result<Exit> prune_mounts(Context& context, const Arguments& args) {
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  std::erase_if(mounts, [](const MountedFs& mount) { return is_in_use(mount.dir); });
  if (mounts.empty()) {
    context.out.line("Nothing to prune.");
    return Exit::kOk;
  }
  context.out.line("The following unused mount points will be unmounted:\n");
  for (const MountedFs& mount : mounts)
    context.out.print("  {} -> {}\n", context.out.name(id_of(mount.source)), context.out.name(mount.dir));
  context.out.line("");
  if (!args.has("force")) {
    WARREN_TRY(context.out.finish());
    context.err.write("Are you sure? (y/N) ");
    std::string answer = WARREN_TRY(read_input(context, 4096));
    bool agrees = answer == "y\n" || answer == "yes\n" || answer == "Y\n" || answer == "y" || answer == "yes";
    if (!agrees) {
      context.out.line("Aborted.");
      return Exit::kOk;
    }
  }
  int failed = 0;
  for (const MountedFs& mount : mounts) {
    bool dead = is_dead_mount(mount.dir);
    Status done = unmount_fuse(mount.dir, dead ? Unmount::kDetach : Unmount::kIfUnused);
    context.out.print("Unmounting {}... {}\n", context.out.name(mount.dir), done.ok() ? "done" : "failed");
    if (!done.ok()) ++failed;
  }
  if (failed > 0) return Error(Code::kBusy, fmt::format("Failed to unmount {} mount(s)", failed));
  return Exit::kOk;
}

Positional id_or_path(Times times) {
  return {.name = "ID_OR_PATH",
          .help = "the agent: an id in ./.agentfs, or the path of its file",
          .times = times,
          .suggest = Suggest::kAgents};
}

Option backend() {
  return {
      .name = "backend", .value = "BACKEND", .help = "how to mount", .choices = {"fuse", "nfs"}, .fallback = "fuse"};
}

}  // namespace

Result<std::string> locate_for_agentfs(const std::string& id_or_path) {
  Result<std::string> path = locate_agent(id_or_path);
  if (path.ok() || path.error().code() == Code::kConflict) return path;
  if (is_agent_id(id_or_path)) {
    return Error(Code::kNotFound,
                 fmt::format("agent {} not found at {}", quote(id_or_path), quote(path_of_agent(id_or_path))));
  }
  return Error(Code::kInvalid, fmt::format("invalid agent ID {}: agent IDs {}", quote(id_or_path), kIdRule));
}

Status refuse_nfs(std::string_view backend) {
  if (backend == "fuse") return Ok{};
  return Error(Code::kUnsupported, "the nfs backend is not supported by Warren: use fuse");
}

Result<Exit> run_in_agentfs(Context& context, const std::string& path, const std::vector<std::string>& command,
                            std::string_view backend_name) {
  WARREN_TRY(refuse_nfs(backend_name));
  std::string absolute = WARREN_TRY(canonical_host_path(path));
  int status = WARREN_TRY(run_in_agent(absolute, command, context.clock));
  return static_cast<Exit>(status);
}

std::vector<Command> make_agentfs_mounts() {
  Positional dir{.name = "MOUNTPOINT",
                 .help = "the directory to mount on",
                 .times = Times::kOptional,
                 .suggest = Suggest::kHostDirs};
  Positional command{.name = "COMMAND", .help = "the program and its arguments", .times = Times::kCommand};
  Command mount{.name = "mount",
                .summary = "Mount an agent, or list mounted agents",
                .details = "",
                .positionals = {id_or_path(Times::kOptional), dir},
                .options = {{.name = "auto-unmount", .letter = 'a', .help = "unmount even if the process is killed"},
                            {.name = "allow-root", .help = "let root in as well"},
                            {.name = "system", .help = "let every user in"},
                            {.name = "foreground", .letter = 'f', .help = "stay in the foreground"},
                            {.name = "uid", .value = "UID", .help = "owner of all files", .kind = ValueKind::kUserId},
                            {.name = "gid", .value = "GID", .help = "group of all files", .kind = ValueKind::kUserId},
                            backend()},
                .subcommands = {},
                .handler = run_mount};
  Command exec{.name = "exec",
               .summary = "Run a command inside an agent's files",
               .details = "",
               .positionals = {id_or_path(Times::kOnce), command},
               .options = {backend()},
               .subcommands = {},
               .handler = run_exec};
  Command prune{.name = "prune",
                .summary = "Clean up",
                .details = "",
                .positionals = {},
                .options = {},
                .subcommands = {{.name = "mounts",
                                 .summary = "Unmount unused mount points",
                                 .details = "",
                                 .positionals = {},
                                 .options = {{.name = "force", .help = "do not ask"}},
                                 .subcommands = {},
                                 .handler = prune_mounts}},
                .handler = nullptr};
  return {mount, exec, prune};
}

}  // namespace warren::cli
