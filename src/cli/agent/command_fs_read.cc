// fs commands that only read: ls, tree, stat, cat, readlink, find, du.
#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "agent/files/file_verbs.h"
#include "agent/files/transfer.h"
#include "base/format_size.h"
#include "base/path.h"
#include "base/shell_word.h"
#include "cli/agent/glob_check.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/show/expiry.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "fs/walked_dirs.h"

namespace warren::cli {
namespace {

Ink ink_of(const Attributes& node) {
  if (node.is_directory()) return Ink::kBlue;
  if (node.is_symlink()) return Ink::kCyan;
  if (node.is_file() && (node.mode & 0111U) != 0) return Ink::kGreen;
  return node.is_file() ? Ink::kPlain : Ink::kYellow;
}

// The target of a symlink; empty for any other node.
Result<std::string> target_of(FileSystem& fs, std::string_view path, const Attributes& node) {
  if (!node.is_symlink()) return std::string();
  return read_link(fs, path);
}

struct Lister {
  Context& context;
  FileSystem& fs;
  bool is_long;
  bool shows_hidden;
  bool is_json;
  Json json = Json::array();

  Status show(std::string_view path, const NamedAttributes& entry) {
    const Attributes& node = entry.attributes;
    std::string target = WARREN_TRY(target_of(fs, path, node));
    Output& out = context.out;
    std::optional<std::int64_t> expires;
    if (is_json || is_long) expires = WARREN_TRY(expiry_of(fs, node));
    if (is_json) {
      Json item = attributes_json("name", entry.name, node);
      set_expiry(item, expires);
      set_bytes(item, "path", path);
      if (node.is_symlink()) set_bytes(item, "target", target);
      json.push_back(std::move(item));
      return Ok{};
    }
    std::string name = out.paint(ink_of(node), is_long ? out.name(entry.name) : out.exact_name(entry.name));
    if (is_long) {
      if (node.is_symlink()) name += " -> " + out.name(target);
      if (expires) name += fmt::format(" (expires {})", out.time(*expires / 1000));
      out.print("{} {:>3} {:>5} {:>5} {:>12} {} {}\n", format_mode(node.mode), node.nlink, node.owner.uid,
                node.owner.gid, out.size(node.size), out.time(node.mtime.seconds), name);
    } else {
      out.line(name);
    }
    return out.status();
  }

  bool is_shown(std::string_view name) const { return shows_hidden || !name.starts_with('.'); }
};

Status list_one(Lister& lister, const std::string& path, WalkedDirs& walked, std::deque<std::string>* pending) {
  Listing listing = WARREN_TRY(list_path(lister.fs, path));
  for (const NamedAttributes& entry : listing.entries) {
    if (!listing.is_directory) {
      WARREN_TRY(lister.show(path, entry));
      continue;
    }
    if (!lister.is_shown(entry.name)) continue;
    std::string full = join_path(path, entry.name);
    WARREN_TRY(lister.show(full, entry));
    if (pending == nullptr || !entry.attributes.is_directory()) continue;
    WARREN_TRY(walked.enter(entry.attributes.inode, full));
    pending->push_back(full);
  }
  return Ok{};
}

Result<Exit> run_ls(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  Lister lister{.context = context,
                .fs = agent->fs(),
                .is_long = args.has("long"),
                .shows_hidden = args.has("all"),
                .is_json = args.has("json")};
  std::string start = WARREN_TRY(normalise_path(args.get("PATH")));
  bool is_recursive = args.has("recursive");
  WalkedDirs walked(agent->fs());
  std::deque<std::string> pending{start};
  for (bool is_first = true; !pending.empty(); is_first = false) {
    std::string path = std::move(pending.front());
    pending.pop_front();
    if (is_recursive && !lister.is_json) {
      context.out.print("{}{}:\n", is_first ? "" : "\n", context.out.name(path));
    }
    WARREN_TRY(list_one(lister, path, walked, is_recursive ? &pending : nullptr));
  }
  if (lister.is_json) context.out.json(lister.json);
  return end_reading(*agent);
}

Status print_file(Context& context, FileSystem& fs, std::string_view path) {
  return read_to(fs, path, [&](Bytes data) {
    context.out.raw(as_text(data));
    return context.out.status();
  });
}

// PATH@CHECKPOINT is the file as it was then, unless a file now has that name.
Result<Exit> run_cat(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  for (const std::string& path : args.all("PATH")) {
    std::size_t at = path.rfind('@');
    bool is_past = at != path.npos && path.find('/', at) == path.npos;
    if (!is_past || WARREN_TRY(exists(agent->fs(), path))) {
      WARREN_TRY(print_file(context, agent->fs(), path));
      continue;
    }
    Checkpoint then = WARREN_TRY(get_checkpoint(*agent, std::string_view(path).substr(at + 1)));
    auto past = WARREN_TRY(open_checkpoint(*agent, then.id, context.clock));
    WARREN_TRY(record_past_reading(*agent, path));
    WARREN_TRY(print_file(context, past->fs(), std::string_view(path).substr(0, at)));
  }
  return end_reading(*agent);
}

struct TreeCounts {
  std::uint64_t directories = 0;
  std::uint64_t files = 0;
};

struct TreeLevel {
  std::string path;
  std::string prefix;
  std::vector<NamedAttributes> entries;
  std::size_t next = 0;
};

Status print_tree(Context& context, FileSystem& fs, const std::string& start, std::size_t depth_max,
                  TreeCounts& counts) {
  Output& out = context.out;
  WalkedDirs walked(fs);
  std::vector<TreeLevel> levels;
  std::vector<NamedAttributes> top = WARREN_TRY(read_dir_plus(fs, start));
  levels.push_back({start, "", std::move(top)});
  while (!levels.empty()) {
    TreeLevel& level = levels.back();
    if (level.next == level.entries.size()) {
      levels.pop_back();
      continue;
    }
    const NamedAttributes& entry = level.entries[level.next++];
    bool is_last = level.next == level.entries.size();
    std::string path = join_path(level.path, entry.name);
    std::string label = out.paint(ink_of(entry.attributes), out.name(entry.name));
    std::string target = WARREN_TRY(target_of(fs, path, entry.attributes));
    if (!target.empty()) label += " -> " + out.name(target);
    out.print("{}{}{}\n", level.prefix, is_last ? "└── " : "├── ", label);
    WARREN_TRY(out.status());
    if (!entry.attributes.is_directory()) {
      ++counts.files;
      continue;
    }
    ++counts.directories;
    WARREN_TRY(walked.enter(entry.attributes.inode, path));
    if (levels.size() >= depth_max) continue;
    std::string prefix = level.prefix + (is_last ? "    " : "│   ");
    std::vector<NamedAttributes> below = WARREN_TRY(read_dir_plus(fs, path));
    levels.push_back({path, std::move(prefix), std::move(below)});
  }
  return Ok{};
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

Result<Exit> run_tree(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  std::string start = WARREN_TRY(normalise_path(args.get("PATH")));
  std::int64_t depth = args.has("depth") ? args.integer("depth") : limits::kTreeDepth;
  if (args.has("json")) {
    Json list = Json::array();
    FindOptions options{.depth_max = static_cast<int>(std::min<std::int64_t>(depth, limits::kTreeDepth))};
    WARREN_TRY(find(agent->fs(), start, options, [&](const WalkEntry& entry) -> Status {
      list.push_back(attributes_json("path", entry.path, entry.attributes));
      return Ok{};
    }));
    context.out.json(list);
    return end_reading(*agent);
  }
  context.out.line(context.out.paint(Ink::kBlue, context.out.name(start)));
  TreeCounts counts;
  if (depth > 0) WARREN_TRY(print_tree(context, agent->fs(), start, static_cast<std::size_t>(depth), counts));
  context.out.print("\n{}, {}\n", counted(counts.directories, "directory", "directories"),
                    counted(counts.files, "file", "files"));
  return end_reading(*agent);
}

Result<Exit> run_stat(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  Json list = Json::array();
  Output& out = context.out;
  for (const std::string& path : args.all("PATH")) {
    Attributes node = WARREN_TRY(resolve(agent->fs(), path, args.has("follow") ? Follow::kYes : Follow::kNo));
    std::string target = WARREN_TRY(target_of(agent->fs(), path, node));
    std::optional<std::int64_t> expires = WARREN_TRY(expiry_of(agent->fs(), node));
    if (args.has("json")) {
      Json item = attributes_json("path", path, node);
      set_expiry(item, expires);
      if (node.is_symlink()) set_bytes(item, "target", target);
      list.push_back(std::move(item));
      continue;
    }
    out.print("    path: {}{}\n", out.name(path), target.empty() ? "" : " -> " + out.name(target));
    std::string bytes = std::to_string(node.size);
    std::string size = out.size(node.size);  // the same number with --bytes
    out.print("    type: {}\n    size: {}{}\n", type_word(node.mode), bytes,
              size == bytes ? "" : fmt::format(" ({})", size));
    out.print("    mode: {:04o} ({})\n", node.mode & 07777U, format_mode(node.mode));
    out.print("   inode: {}\n   links: {}\n   owner: {}:{}\n", node.inode.value, node.nlink, node.owner.uid,
              node.owner.gid);
    out.print("accessed: {}\nmodified: {}\n changed: {}\n", out.time_full(node.atime), out.time_full(node.mtime),
              out.time_full(node.ctime));
    if (expires) out.print(" expires: {}\n", out.time_full(timestamp_of(*expires)));
  }
  if (args.has("json")) out.json(list);
  return end_reading(*agent);
}

Result<Exit> run_readlink(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  std::string target = WARREN_TRY(read_link(agent->fs(), args.get("PATH")));
  if (args.has("json")) {
    Json json;
    set_bytes(json, "target", target);
    context.out.json(json);
  } else {
    context.out.line(context.out.exact_name(target));
  }
  return end_reading(*agent);
}

std::uint32_t type_of_letter(std::string_view letter) {
  switch (letter[0]) {
    case 'd': return S_IFDIR;
    case 'l': return S_IFLNK;
    case 'p': return S_IFIFO;
    case 's': return S_IFSOCK;
    case 'c': return S_IFCHR;
    case 'b': return S_IFBLK;
    default: return S_IFREG;
  }
}

Result<FindOptions> find_options(const Arguments& args, Zone zone) {
  FindOptions options;
  options.name = args.find("name");
  if (options.name) WARREN_TRY(check_brackets(*options.name, Backslash::kPlain));
  if (auto letter = args.find("type")) options.type = type_of_letter(*letter);
  options.size_min = args.find_size("min-size");
  options.size_max = args.find_size("max-size");
  if (auto time = args.find("newer")) {
    std::int64_t seconds = WARREN_TRY(parse_time(*time, zone));
    options.newer = Timestamp{seconds, 0};
  }
  if (args.has("depth"))
    options.depth_max = static_cast<int>(std::min<std::int64_t>(args.integer("depth"), limits::kTreeDepth));
  return options;
}

Result<Exit> run_find(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  FindOptions options = WARREN_TRY(find_options(args, context.out.zone()));
  Json list = Json::array();
  Status found = find(agent->fs(), args.get("PATH"), options, [&](const WalkEntry& entry) -> Status {
    if (args.has("json")) {
      list.push_back(attributes_json("path", entry.path, entry.attributes));
    } else if (args.has("null")) {
      context.out.write(context.out.exact_name(entry.path) + '\0');
    } else {
      context.out.line(context.out.paint(ink_of(entry.attributes), context.out.exact_name(entry.path)));
    }
    return context.out.status();
  });
  const std::string& path = args.get("PATH");
  bool is_pattern = !found.ok() && found.error().code() == Code::kNotFound && path.find_first_of("*?[") != path.npos;
  if (is_pattern) {
    return Error(Code::kNotFound, std::string(found.error().message()),
                 fmt::format("PATH is where to start; names are found by `warren fs {} find / -name {}`",
                             shell_word(args.get("ID")), shell_word(path)));
  }
  WARREN_TRY(std::move(found));
  if (args.has("json")) context.out.json(list);
  return end_reading(*agent);
}

Result<Exit> run_du(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kRead));
  std::string start = WARREN_TRY(normalise_path(args.get("PATH")));
  Json list = Json::array();
  bool is_summary = args.has("summary");
  WARREN_TRY(disk_usage(agent->fs(), start, [&](std::string_view path, const DiskUsage& usage) -> Status {
    if (is_summary && path != start) return Ok{};
    if (args.has("json")) {
      Json item;
      set_bytes(item, "path", path);
      item["bytes"] = usage.bytes;
      item["files"] = usage.files;
      item["directories"] = usage.directories;
      list.push_back(std::move(item));
    } else {
      std::string size = context.out.size(usage.bytes);
      context.out.print("{:>12}  {}\n", size, context.out.exact_name(path));
    }
    return context.out.status();
  }));
  if (args.has("json")) context.out.json(list);
  return end_reading(*agent);
}

Positional path_or_root(std::string_view help) {
  return {.name = "PATH", .help = help, .times = Times::kOptional, .suggest = Suggest::kPaths, .fallback = "/"};
}

Option depth_option() {
  return {.name = "depth", .letter = 'd', .value = "N", .help = "descend at most N levels", .kind = ValueKind::kCount};
}

Command reader(std::string_view name, std::string_view summary, std::vector<Positional> positionals,
               std::vector<Option> options, Handler handler) {
  return {.name = name,
          .summary = summary,
          .details = "",
          .positionals = std::move(positionals),
          .options = std::move(options),
          .subcommands = {},
          .handler = handler};
}

std::vector<Option> find_table() {
  return {
      {.name = "name", .letter = 'n', .value = "GLOB", .help = "only paths whose last name matches: * ? [a-z]"},
      {.name = "type",
       .letter = 't',
       .value = "T",
       .help = "only nodes of this type",
       .choices = {"f", "d", "l", "p", "s", "c", "b"}},
      {.name = "min-size", .value = "SIZE", .help = "only nodes of at least this size", .kind = ValueKind::kSize},
      {.name = "max-size", .value = "SIZE", .help = "only nodes of at most this size", .kind = ValueKind::kSize},
      {.name = "newer", .value = "TIME", .help = "only nodes modified after this time", .kind = ValueKind::kTime},
      depth_option(),
      {.name = "null", .letter = '0', .help = "end each path with NUL instead of a newline"},
      json_option(),
  };
}

}  // namespace

std::vector<Command> make_fs_readers() {
  Command find =
      reader("find", "Find paths below a directory", {path_or_root("where to start")}, find_table(), run_find);
  find.takes_one_dash = true;
  Positional one{.name = "PATH", .help = "a path in the agent", .suggest = Suggest::kPaths};
  Positional many{
      .name = "PATH", .help = "paths in the agent", .times = Times::kOnceOrMore, .suggest = Suggest::kPaths};
  return {
      reader("ls", "List a directory", {path_or_root("what to list")},
             {{.name = "long", .letter = 'l', .help = "also show mode, links, owner, group, size and time"},
              {.name = "all", .letter = 'a', .help = "include names that begin with '.'"},
              {.name = "recursive", .letter = 'R', .help = "list subdirectories too"},
              json_option()},
             run_ls),
      reader("tree", "Draw the tree below a directory", {path_or_root("where to start")},
             {depth_option(), json_option()}, run_tree),
      reader("cat", "Print files; PATH@CHECKPOINT: as they were", {many}, {}, run_cat),
      reader("stat", "Show everything about a path", {many},
             {{.name = "follow", .letter = 'L', .help = "follow symbolic links"}, json_option()}, run_stat),
      reader("readlink", "Print the target of a symbolic link", {one}, {json_option()}, run_readlink),
      find,
      reader("du", "Add up sizes below a directory", {path_or_root("where to start")},
             {{.name = "summary", .letter = 's', .help = "print only the total"},
              {.name = "human", .letter = 'H', .help = "print sizes like 1.5 MiB; this is the default"},
              json_option()},
             run_du),
  };
}

}  // namespace warren::cli
