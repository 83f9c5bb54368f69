#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/vfs/view.h"
#include "os/files/host_files.h"
#include "session/served_agent.h"

namespace warren::cli {
namespace {

Result<Exit> list_mounts(Context& context, const Arguments& args) {
  std::vector<MountedFs> mounts = WARREN_TRY(list_warren_mounts());
  if (args.has("json")) {
    Json list = Json::array();
    for (const MountedFs& mount : mounts) {
      Json one = Json::object();
      set_bytes(one, "agent", mount.source);
      set_bytes(one, "dir", mount.dir);
      one["alive"] = !is_dead_mount(mount.dir);
      list.push_back(one);
    }
    context.out.json(list);
    return Exit::kOk;
  }
  for (const MountedFs& mount : mounts) {
    context.out.print("{} on {}{}\n", context.out.name(mount.source), context.out.name(mount.dir),
                      is_dead_mount(mount.dir) ? " (dead: `warren prune mounts` removes it)" : "");
  }
  return Exit::kOk;
}

std::optional<std::uint32_t> find_id(const Arguments& args, std::string_view name) {
  if (!args.has(name)) return std::nullopt;
  return static_cast<std::uint32_t>(args.integer(name));
}

Result<Exit> run_mount(Context& context, const Arguments& args) {
  if (!args.has("ID")) return list_mounts(context, args);
  if (!args.has("DIR")) return refuse(context, "`warren mount ID DIR` needs a directory to mount on");
  bool for_everyone = args.has("allow-other") || args.has("system");
  if (args.has("allow-root") && for_everyone) {
    return refuse(context, "--allow-root and --allow-other cannot be used together");
  }
  std::string located = WARREN_TRY(locate_agent(args.get("ID")));
  if (located == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory cannot be mounted");
  ServeOptions options;
  options.agent_path = WARREN_TRY(canonical_host_path(located));
  options.dir =
      WARREN_TRY(resolve_mount_point(args.get("DIR")).within(fmt::format("mount on {}", quote(args.get("DIR")))));
  options.kind = "mount";
  options.command = fmt::format("warren mount {} {}", args.get("ID"), args.get("DIR"));
  options.audience = for_everyone             ? MountFor::kEveryone
                     : args.has("allow-root") ? MountFor::kRootToo
                                              : MountFor::kOwner;
  options.read_only = args.has("read-only");
  options.no_exec = args.has("no-exec");
  options.sync = args.has("sync");
  options.auto_unmount = args.has("auto-unmount");
  options.namespaces = args.has("namespace");
  bool has_mounts = args.has("mount") || args.has("mounts");
  if (has_mounts && !options.namespaces) {
    return refuse(context, "--mount and --mounts are for the namespace: add --namespace");
  }
  if (options.namespaces) options.mounts = WARREN_TRY(mounts_of(args, options.agent_path));
  options.anchor = WARREN_TRY(asked_anchor(args.find("anchor"), args.find("anchor-every")));
  options.session = session_options(find_id(args, "uid"), find_id(args, "gid"));
  options.session.passthrough = args.has("passthrough");
  options.warn = [&](const std::string& message) { context.err.line("warren: " + message); };
  WARREN_TRY(serve_agent(options, args.has("foreground") ? Foreground::kYes : Foreground::kNo, context.clock));
  return Exit::kOk;
}

}  // namespace

Command make_mount() {
  Command command{
      .name = "mount",
      .summary = "Mount an agent's files on a directory",
      .details =
          "Continues in the background once the mount is ready; `warren umount DIR` or SIGTERM ends it. Other "
          "processes can use the agent at the same time and see each other's changes. Without arguments it lists "
          "mounted agents.",
      .positionals = {{.name = "ID",
                       .help = "the agent: an id in ./.agentfs, or the path of its file",
                       .times = Times::kOptional,
                       .suggest = Suggest::kAgents},
                      {.name = "DIR",
                       .help = "the directory to mount on",
                       .times = Times::kOptional,
                       .suggest = Suggest::kHostDirs}},
      .options = {{.name = "foreground", .letter = 'f', .help = "stay in the foreground; Ctrl-C unmounts"},
                  {.name = "auto-unmount", .letter = 'a', .help = "unmount even if the process is killed"},
                  {.name = "allow-other", .help = "let every user in, subject to file permissions"},
                  {.name = "system", .help = "same as --allow-other"},
                  {.name = "allow-root", .help = "let root in as well"},
                  {.name = "uid",
                   .value = "UID",
                   .help = "show this user as the owner of everything",
                   .kind = ValueKind::kUserId},
                  {.name = "gid",
                   .value = "GID",
                   .help = "show this group as the group of everything",
                   .kind = ValueKind::kUserId},
                  {.name = "passthrough",
                   .help = "read large files at the speed of the base; opening any file takes longer"},
                  {.name = "namespace",
                   .help = "mount the agent's namespace (memory, policy, messages) under its rules"},
                  {.name = "read-only", .letter = 'r', .help = "do not allow changes through the mount"},
                  {.name = "no-exec", .help = "do not allow programs to be executed from the mount"},
                  {.name = "sync", .help = "write every change to the disk before its call returns; slow"},
                  json_option()},
      .subcommands = {},
      .handler = run_mount};
  for (Option& one : mount_options()) command.options.push_back(std::move(one));
  for (Option& one : anchor_options()) command.options.push_back(std::move(one));
  return command;
}

}  // namespace warren::cli
