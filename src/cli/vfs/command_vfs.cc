#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "agent/semantic/semantic_text.h"
#include "base/limits.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/show/expiry.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "cli/vfs/embedding.h"
#include "cli/vfs/hosted.h"
#include "cli/vfs/view.h"
#include "fs/path_ops.h"
#include "vfs/on_record.h"
#include "vfs/values.h"

namespace warren::cli {
namespace {

Result<Exit> run_vfs_read(Context& context, const Arguments& args) {
  if (is_hosted(args)) {
    auto client = WARREN_TRY(connect_host(args));
    std::string content = WARREN_TRY(client->read(args.get("PATH")));
    context.out.text(content);
    return Exit::kOk;
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args, "read"));
  std::string content = WARREN_TRY(on_record(*view.fs, "read", path, read_file(*view.fs, path)));
  WARREN_TRY(view.fs->check_recorded());
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
  if (is_hosted(args)) {
    HostClient::WriteOptions options;
    if (args.has("ttl")) options.time_to_live = WARREN_TRY(parse_duration(args.get("ttl")));
    auto client = WARREN_TRY(connect_host(args));
    ValueToStore stored{.value = std::move(value), .as_is = args.has("raw")};
    // Only the host knows the policy.
    auto may_write = []() -> Result<bool> { return true; };
    if (!stored.as_is) {
      stored = WARREN_TRY(embedded_item(context, args.get("PATH"), std::move(stored.value), may_write));
    }
    options.as_is = stored.as_is;
    WARREN_TRY(client->write(args.get("PATH"), stored.value, options));
    return Exit::kOk;
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args, "write"));
  std::optional<std::int64_t> expires_at_ms = WARREN_TRY(find_expiry_option(context, args));
  ValueToStore stored{.value = std::move(value), .as_is = args.has("raw")};
  auto may_write = [&] { return may_write_item(*view.fs, path); };
  if (!stored.as_is) stored = WARREN_TRY(embedded_item(context, path, std::move(stored.value), may_write));
  WARREN_TRY(view.names->write(*view.fs, path, stored.value, stored.as_is ? AsIs::kYes : AsIs::kNo, expires_at_ms));
  return Exit::kOk;
}

Result<Exit> run_vfs_append(Context& context, const Arguments& args) {
  std::string value = WARREN_TRY(value_to_write(context, args));
  if (is_hosted(args)) {
    auto client = WARREN_TRY(connect_host(args));
    WARREN_TRY(client->append(args.get("PATH"), value, args.has("raw")));
    return Exit::kOk;
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args, "append"));
  WARREN_TRY(append_value(*view.fs, path, value, args.has("raw") ? AsIs::kYes : AsIs::kNo));
  return Exit::kOk;
}

Result<std::vector<HostedEntry>> list_here(OpenView& view, const std::string& path, const Arguments& args) {
  std::vector<NamedAttributes> found = WARREN_TRY(on_record(*view.fs, "list", path, read_dir_plus(*view.fs, path)));
  std::vector<HostedEntry> entries;
  for (NamedAttributes& one : found) {
    HostedEntry entry{.name = std::move(one.name), .attributes = one.attributes, .expires_at_ms = std::nullopt};
    if (args.has("json")) entry.expires_at_ms = WARREN_TRY(expiry_of(*view.fs, one.attributes));
    entries.push_back(std::move(entry));
  }
  WARREN_TRY(view.fs->check_recorded());
  return entries;
}

Result<std::vector<HostedEntry>> list_anywhere(Context& context, const Arguments& args) {
  if (is_hosted(args)) {
    auto client = WARREN_TRY(connect_host(args));
    return client->list(args.get("PATH"));
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args, "list"));
  return list_here(view, path, args);
}

Result<Exit> run_vfs_ls(Context& context, const Arguments& args) {
  std::vector<HostedEntry> entries = WARREN_TRY(list_anywhere(context, args));
  Json list = Json::array();
  for (const HostedEntry& entry : entries) {
    if (args.has("json")) {
      Json item = attributes_json("name", entry.name, entry.attributes);
      set_expiry(item, entry.expires_at_ms);
      list.push_back(std::move(item));
      continue;
    }
    context.out.print("{}{}\n", context.out.exact_name(entry.name), entry.attributes.is_directory() ? "/" : "");
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

Result<Exit> run_vfs_rm(Context& context, const Arguments& args) {
  if (is_hosted(args)) {
    auto client = WARREN_TRY(connect_host(args));
    WARREN_TRY(client->remove(args.get("PATH"),
                              args.has("recursive") ? HostClient::Recursive::kYes : HostClient::Recursive::kNo));
    return Exit::kOk;
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args, "delete"));
  RemoveOptions how{.recursive = args.has("recursive") ? Recursive::kYes : Recursive::kNo};
  WARREN_TRY(on_record(*view.fs, "delete", path, remove(*view.fs, path, how)));
  return Exit::kOk;
}

Result<bool> exists_anywhere(Context& context, const Arguments& args) {
  if (is_hosted(args)) {
    auto client = WARREN_TRY(connect_host(args));
    return client->exists(args.get("PATH"));
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string path = WARREN_TRY(view.path(args, "exists"));
  return exists(*view.fs, path);
}

Result<Exit> run_vfs_exists(Context& context, const Arguments& args) {
  bool is_there = WARREN_TRY(exists_anywhere(context, args));
  if (args.has("json")) context.out.json(Json(is_there));
  return is_there ? Exit::kOk : Exit::kFailed;
}

// With its path as its name.
Result<HostedEntry> stat_anywhere(Context& context, const Arguments& args) {
  if (is_hosted(args)) {
    auto client = WARREN_TRY(connect_host(args));
    HostedEntry entry = WARREN_TRY(client->stat(args.get("PATH")));
    entry.name = WARREN_TRY(normalise_path(args.get("PATH")));
    return entry;
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  HostedEntry entry;
  entry.name = WARREN_TRY(view.path(args, "stat"));
  entry.attributes = WARREN_TRY(lstat(*view.fs, entry.name));
  entry.expires_at_ms = WARREN_TRY(expiry_of(*view.fs, entry.attributes));
  return entry;
}

Result<Exit> run_vfs_stat(Context& context, const Arguments& args) {
  HostedEntry entry = WARREN_TRY(stat_anywhere(context, args));
  const Attributes& node = entry.attributes;
  if (args.has("json")) {
    Json item = attributes_json("path", entry.name, node);
    set_expiry(item, entry.expires_at_ms);
    context.out.json(item);
    return Exit::kOk;
  }
  context.out.print("{}\n  {}, {}, changed {}", context.out.name(entry.name), format_mode(node.mode),
                    context.out.size(node.size), context.out.time(node.mtime.seconds));
  if (entry.expires_at_ms) context.out.print(", expires {}", context.out.time(*entry.expires_at_ms / 1000));
  context.out.print("\n");
  return Exit::kOk;
}

using ListDir = std::function<Result<std::vector<HostedEntry>>(const std::string& dir)>;

// A directory that the caller may not list is shown, and not entered.
Result<Exit> show_tree(Context& context, const std::string& start, const ListDir& list) {
  struct Shown {
    std::string path;
    std::string name;
    std::size_t depth = 0;
    bool is_directory = false;
    Inode node;
  };
  std::vector<Shown> stack{{start, start, 0, true, Inode()}};
  std::vector<Inode> above;  // the directories that contain it; a host does not tell their numbers
  bool is_start = true;
  while (!stack.empty()) {
    Shown at = std::move(stack.back());
    stack.pop_back();
    if (is_start) context.out.line(context.out.name(start));
    else context.out.print("{:{}}{}{}\n", "", at.depth * 2, context.out.name(at.name), at.is_directory ? "/" : "");
    if (!at.is_directory || at.depth >= limits::kTreeDepth) continue;
    above.resize(at.depth);
    bool is_inside_itself = at.node != Inode() && std::find(above.begin(), above.end(), at.node) != above.end();
    if (is_inside_itself)
      return Error(Code::kCorrupt, fmt::format("directory {} is inside itself", quote(at.path)),
                   "check the agent with `warren fsck`");
    above.push_back(at.node);
    Result<std::vector<HostedEntry>> entries = list(at.path);
    bool is_gone = !entries.ok() && entries.error().code() == Code::kNotFound && !is_start;
    is_start = false;
    if (is_gone) continue;  // removed meanwhile
    if (!entries.ok() && entries.error().code() == Code::kDenied) {
      context.out.print("{:{}}(not to be listed)\n", "", (at.depth + 1) * 2);
      continue;
    }
    std::vector<HostedEntry> found = WARREN_TRY(std::move(entries));
    for (auto entry = found.rbegin(); entry != found.rend(); ++entry) {
      stack.push_back({join_path(at.path, entry->name), entry->name, at.depth + 1, entry->attributes.is_directory(),
                       entry->attributes.inode});
    }
  }
  return Exit::kOk;
}

Result<Exit> run_vfs_tree(Context& context, const Arguments& args) {
  if (is_hosted(args)) {
    auto client = WARREN_TRY(connect_host(args));
    std::string start = WARREN_TRY(normalise_path(args.get("PATH")));
    return show_tree(context, start, [&](const std::string& dir) { return client->list(dir); });
  }
  OpenView view = WARREN_TRY(open_view(context, args));
  std::string start = WARREN_TRY(view.path(args, "list"));
  return show_tree(context, start, [&](const std::string& dir) { return list_here(view, dir, args); });
}

Result<Exit> run_vfs_mounts(Context& context, const Arguments& args) {
  if (is_hosted(args)) return refuse(context, "a host does not show what is mounted");
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
    for (Option& one : hosted_options()) options.push_back(std::move(one));
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
          "have the operator's rights (kernel space) unless --as-agent is given. With --host and --key they go through "
          "a host, as the agent.",
      .positionals = {id_argument()},
      .options = {},
      .subcommands =
          {make("read", "Print the content of a file", "", {path}, {}, run_vfs_read),
           make("write", "Replace the content of a file",
                "Creates missing directories. A name ending in .json takes one JSON value, .jsonl one on each line. "
                "Below /mem/episodic it appends. Below /mem/semantic, .json is an item that `query` can find; one that "
                "has a text and no embedding gets it from the user's embedder.",
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
