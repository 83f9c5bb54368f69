#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/show/expiry.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "cli/vfs/view.h"
#include "fs/path_ops.h"
#include "vfs/values.h"

namespace warren::cli {
namespace {

Result<Exit> run_vfs_read(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args));
  std::string content = WARREN_TRY(read_file(*view.fs, path));
  context.out.text(content);
  return Exit::kOk;
}

Result<std::string> value_to_write(Context& context, const Arguments& args) {
  std::optional<std::string> given = args.find("VALUE");
  if (given && *given != "-") return *given;
  return read_input(context, limits::kValueBytes);
}

Result<Exit> run_vfs_write(Context& context, const Arguments& args) {
  std::string value = WARREN_TRY(value_to_write(context, args));
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args));
  std::optional<std::int64_t> expires_at_ms = WARREN_TRY(find_expiry_option(context, args));
  WARREN_TRY(view.names->write(*view.fs, path, value, args.has("raw") ? AsIs::kYes : AsIs::kNo, expires_at_ms));
  return Exit::kOk;
}

Result<Exit> run_vfs_append(Context& context, const Arguments& args) {
  std::string value = WARREN_TRY(value_to_write(context, args));
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args));
  WARREN_TRY(append_value(*view.fs, path, value, args.has("raw") ? AsIs::kYes : AsIs::kNo));
  return Exit::kOk;
}

Result<Exit> run_vfs_ls(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args));
  std::vector<NamedAttributes> entries = WARREN_TRY(read_dir_plus(*view.fs, path));
  Json list = Json::array();
  for (const NamedAttributes& entry : entries) {
    if (args.has("json")) {
      Json item = attributes_json("name", entry.name, entry.attributes);
      std::optional<std::int64_t> expires = WARREN_TRY(expiry_of(*view.fs, entry.attributes));
      set_expiry(item, expires);
      list.push_back(std::move(item));
      continue;
    }
    context.out.print("{}{}\n", context.out.name(entry.name), entry.attributes.is_directory() ? "/" : "");
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

Result<Exit> run_vfs_rm(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args));
  WARREN_TRY(remove(*view.fs, path, {.recursive = args.has("recursive") ? Recursive::kYes : Recursive::kNo}));
  return Exit::kOk;
}

Result<Exit> run_vfs_exists(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args));
  bool is_there = WARREN_TRY(exists(*view.fs, path));
  if (args.has("json")) context.out.json(Json(is_there));
  return is_there ? Exit::kOk : Exit::kFailed;
}

Result<Exit> run_vfs_stat(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args));
  Attributes node = WARREN_TRY(lstat(*view.fs, path));
  std::optional<std::int64_t> expires = WARREN_TRY(expiry_of(*view.fs, node));
  if (args.has("json")) {
    Json item = attributes_json("path", path, node);
    set_expiry(item, expires);
    context.out.json(item);
    return Exit::kOk;
  }
  context.out.print("{}\n  {}, {} bytes, changed {}", context.out.name(path), format_mode(node.mode), node.size,
                    format_time(node.mtime.seconds));
  if (expires) context.out.print(", expires {}", format_time(*expires / 1000));
  context.out.print("\n");
  return Exit::kOk;
}

// A directory that the caller may not list is shown, and not entered.
Result<Exit> run_vfs_tree(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string start = WARREN_TRY(view.path(args));
  context.out.line(context.out.name(start));
  auto show = [&](const std::string& dir, int depth) -> Result<std::vector<std::pair<std::string, int>>> {
    std::vector<std::pair<std::string, int>> below;
    Result<std::vector<NamedAttributes>> entries = read_dir_plus(*view.fs, dir);
    if (!entries.ok()) {
      if (entries.error().code() != Code::kDenied) return std::move(entries).take_error();
      context.out.print("{:{}}(not to be listed)\n", "", (depth + 1) * 2);
      return below;
    }
    for (const NamedAttributes& entry : *entries) below.emplace_back(join_path(dir, entry.name), depth + 1);
    return below;
  };
  std::vector<std::pair<std::string, int>> stack = WARREN_TRY(show(start, 0));
  std::reverse(stack.begin(), stack.end());
  while (!stack.empty()) {
    auto [path, depth] = std::move(stack.back());
    stack.pop_back();
    Result<Attributes> node = lstat(*view.fs, path);
    if (!node.ok()) continue;  // removed meanwhile
    context.out.print("{:{}}{}{}\n", "", depth * 2, context.out.name(base_name(path)), node->is_directory() ? "/" : "");
    if (!node->is_directory() || depth >= limits::kTreeDepth) continue;
    auto below = WARREN_TRY(show(path, depth));
    stack.insert(stack.end(), std::make_move_iterator(below.rbegin()), std::make_move_iterator(below.rend()));
  }
  return Exit::kOk;
}

Result<Exit> run_vfs_mounts(Context& context, const Arguments& args) {
  OpenView view = WARREN_TRY(open_view(context, args));
  std::vector<AgentNamespace::MountHealth> health;
  if (args.has("check")) health = view.names->check_mounts();
  Json list = Json::array();
  Exit exit = Exit::kOk;
  for (const MountInfo& mount : (*view.names)->mounts()) {
    Json one{{"path", mount.path}};
    set_bytes(one, "backend", mount.backend);
    std::string state;
    auto checked = std::ranges::find(health, mount.path, &AgentNamespace::MountHealth::path);
    if (args.has("check")) {
      // What is in this process or in the agent file answers: it is open.
      bool answers = checked == health.end() || checked->answers.ok();
      if (!answers) exit = Exit::kFailed;
      one["answers"] = answers;
      if (!answers) one["error"] = checked->answers.error().message();
      state = answers ? "  answers" : fmt::format("  {}", context.out.name(checked->answers.error().message()));
    }
    if (args.has("json")) list.push_back(std::move(one));
    else context.out.print("{:<16} {}{}\n", context.out.name(mount.path), context.out.name(mount.backend), state);
  }
  if (args.has("json")) context.out.json(list);
  return exit;
}

}  // namespace

Command make_vfs() {
  Positional path{.name = "PATH", .help = "a path of the namespace, or /agent/ID/PATH"};
  Positional optional_path = path;
  optional_path.times = Times::kOptional;
  optional_path.fallback = "/";
  Positional value{
      .name = "VALUE", .help = "the content; `-` or nothing: from standard input", .times = Times::kOptional};
  Option raw{.name = "raw", .help = "store the bytes as they are, whatever the name ends in"};
  auto make = [](std::string_view name, std::string_view summary, std::string_view details,
                 std::vector<Positional> positionals, std::vector<Option> options, Handler handler) {
    options.push_back(as_agent_option());
    for (Option& one : mount_options()) options.push_back(std::move(one));
    return Command{.name = name,
                   .summary = summary,
                   .details = details,
                   .positionals = std::move(positionals),
                   .options = std::move(options),
                   .subcommands = {},
                   .handler = handler};
  };
  return {
      .name = "vfs",
      .summary = "Use an agent's namespace: memory, state, policy and messages as files",
      .details =
          "The namespace is the agent's own tree with /mem/working, /mem/episodic, /mem/semantic, "
          "/state/checkpoints, /policy, /ipc/inbox, /ipc/outbox and /audit, under the rules of its policy. Commands "
          "have the operator's rights (kernel space) unless --as-agent is given.",
      .positionals = {id_argument()},
      .options = {},
      .subcommands =
          {make("read", "Print the content of a file", "", {path}, {}, run_vfs_read),
           make("write", "Replace the content of a file",
                "Makes missing directories. A name ending in .json takes one JSON value, .jsonl one on each line. "
                "Below /mem/episodic it appends. Below /mem/semantic, .json is an item that `query` can find.",
                {path, value}, {raw, ttl_option()}, run_vfs_write),
           make("append", "Append to a file", "", {path, value}, {raw}, run_vfs_append),
           make("ls", "List a directory", "", {optional_path}, {json_option()}, run_vfs_ls),
           make("rm", "Remove a file", "", {path},
                {{.name = "recursive", .letter = 'r', .help = "remove a directory and everything in it"}}, run_vfs_rm),
           make("exists", "Exit with 0 if the path exists, with 1 if not", "", {path}, {json_option()}, run_vfs_exists),
           make("stat", "Show the attributes of a path", "", {path}, {json_option()}, run_vfs_stat),
           make("tree", "Show a directory and everything in it", "", {optional_path}, {}, run_vfs_tree),
           make_vfs_query(),
           make("mounts", "List what is mounted in the namespace",
                "Mounts come from --mount, from the file of --mounts, and from the user's own file for the agent: "
                "~/.config/warren/mounts/ID.toml.",
                {}, {{.name = "check", .help = "ask each backend; exit with 1 if one does not answer"}, json_option()},
                run_vfs_mounts)},
      .handler = nullptr};
}

}  // namespace warren::cli
