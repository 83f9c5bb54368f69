// fs commands that change the agent's files: write, append, cp, mv, rm, mkdir, rmdir, ln, chmod, touch.
#include <fmt/format.h>

#include "agent/files/file_verbs.h"
#include "agent/files/transfer.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/expiry.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

// With no content or "-", it is read from standard input.
bool reads_input(const Arguments& args) { return args.find("CONTENT").value_or("-") == "-"; }

Result<Exit> run_write(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  const std::string& path = args.get("PATH");
  std::optional<std::int64_t> expires_at_ms = WARREN_TRY(find_expiry_option(context, args));
  if (reads_input(args)) {
    WARREN_TRY(replace_from_fd(agent->fs(), path, context.input, expires_at_ms));
  } else {
    WARREN_TRY(write_file(agent->fs(), path, as_bytes(args.get("CONTENT")), {.expires_at_ms = expires_at_ms}));
  }
  return Exit::kOk;
}

Result<Exit> run_append(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  const std::string& path = args.get("PATH");
  if (reads_input(args)) {
    WARREN_TRY(append_from_fd(agent->fs(), path, context.input));
  } else {
    WARREN_TRY(append_file(agent->fs(), path, as_bytes(args.get("CONTENT"))));
  }
  return Exit::kOk;
}

Recursive recursive_of(const Arguments& args) { return args.has("recursive") ? Recursive::kYes : Recursive::kNo; }

Result<Exit> run_cp(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  WARREN_TRY(copy_path(agent->fs(), args.get("FROM"), args.get("TO"), {.recursive = recursive_of(args)}));
  return Exit::kOk;
}

Result<Exit> run_mv(Context& context, const Arguments& args) {
  if (args.has("no-clobber") && args.has("exchange")) {
    return refuse(context, "'--no-clobber' and '--exchange' cannot be used together");
  }
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  RenameMode mode = args.has("exchange")     ? RenameMode::kExchange
                    : args.has("no-clobber") ? RenameMode::kNoReplace
                                             : RenameMode::kReplace;
  WARREN_TRY(move_path(agent->fs(), args.get("FROM"), args.get("TO"), mode));
  return Exit::kOk;
}

Result<Exit> run_rm(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  RemoveOptions options{.recursive = recursive_of(args), .force = args.has("force") ? Force::kYes : Force::kNo};
  for (const std::string& path : args.all("PATH")) WARREN_TRY(remove(agent->fs(), path, options));
  return Exit::kOk;
}

Result<Exit> run_mkdir(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  std::uint32_t mode = WARREN_TRY(apply_mode(args.get("mode"), S_IFDIR | 0755U));
  for (const std::string& path : args.all("PATH")) {
    WARREN_TRY(args.has("parents") ? make_dirs(agent->fs(), path, {.mode = mode})
                                   : make_dir(agent->fs(), path, {.mode = mode}));
  }
  return Exit::kOk;
}

Result<Exit> run_rmdir(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  for (const std::string& path : args.all("PATH")) WARREN_TRY(remove_dir(agent->fs(), path));
  return Exit::kOk;
}

Result<Exit> run_ln(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  const std::string& target = args.get("TARGET");
  std::string path = WARREN_TRY(destination_of(agent->fs(), target, args.get("PATH")));
  if (args.has("force")) WARREN_TRY(remove(agent->fs(), path, {.force = Force::kYes}));
  WARREN_TRY(args.has("symbolic") ? make_symlink(agent->fs(), target, path) : link(agent->fs(), target, path));
  return Exit::kOk;
}

Result<Exit> run_chmod(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  for (const std::string& path : args.all("PATH")) {
    WARREN_TRY(change_mode(agent->fs(), path, args.get("MODE"), recursive_of(args)));
  }
  return Exit::kOk;
}

Result<Exit> run_touch(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  TouchOptions options{.time = SetTime::now(), .create = args.has("no-create") ? Create::kNo : Create::kIfMissing};
  if (auto time = args.find("time")) {
    std::int64_t seconds = WARREN_TRY(parse_time(*time, context.out.zone()));
    options.time = SetTime::to({seconds, 0});
  }
  for (const std::string& path : args.all("PATH")) WARREN_TRY(touch(agent->fs(), path, options));
  return Exit::kOk;
}

Command writer(std::string_view name, std::string_view summary, std::vector<Positional> positionals,
               std::vector<Option> options, Handler handler) {
  return {.name = name,
          .summary = summary,
          .details = "",
          .positionals = std::move(positionals),
          .options = std::move(options),
          .subcommands = {},
          .handler = handler};
}

}  // namespace

std::vector<Command> make_fs_writers() {
  Positional one{.name = "PATH", .help = "a path in the agent", .suggest = Suggest::kPaths};
  Positional many{
      .name = "PATH", .help = "paths in the agent", .times = Times::kOnceOrMore, .suggest = Suggest::kPaths};
  Positional content{.name = "CONTENT", .help = "the text; `-` or omitted: standard input", .times = Times::kOptional};
  Positional from{.name = "FROM", .help = "a path in the agent", .suggest = Suggest::kPaths};
  Positional to{
      .name = "TO", .help = "the new path, or an existing directory to put it in", .suggest = Suggest::kPaths};
  Option recursive{.name = "recursive", .letter = 'r', .help = "include directories and everything below them"};
  return {
      writer("write", "Write a file, creating missing directories", {one, content}, {ttl_option()}, run_write),
      writer("append", "Add to the end of a file", {one, content}, {}, run_append),
      writer("cp", "Copy a file or a tree within the agent", {from, to}, {recursive}, run_cp),
      writer("mv", "Rename or move", {from, to},
             {{.name = "no-clobber", .letter = 'n', .help = "fail if TO exists"},
              {.name = "exchange", .help = "swap FROM and TO"}},
             run_mv),
      writer("rm", "Remove files and trees", {many},
             {recursive, {.name = "force", .letter = 'f', .help = "ignore paths that do not exist"}}, run_rm),
      writer("mkdir", "Create directories", {many},
             {{.name = "parents", .letter = 'p', .help = "create missing parents; no error if it exists"},
              {.name = "mode", .letter = 'm', .value = "MODE", .help = "permission bits", .fallback = "755"}},
             run_mkdir),
      writer("rmdir", "Remove empty directories", {many}, {}, run_rmdir),
      writer(
          "ln", "Create a link",
          {{.name = "TARGET", .help = "what the link points to", .suggest = Suggest::kPaths},
           {.name = "PATH", .help = "the new link, or an existing directory to put it in", .suggest = Suggest::kPaths}},
          {{.name = "symbolic", .letter = 's', .help = "create a symbolic link"},
           {.name = "force", .letter = 'f', .help = "replace PATH if it exists"}},
          run_ln),
      writer("chmod", "Change permission bits", {{.name = "MODE", .help = "as in 644, u+x or go-w"}, many},
             {{.name = "recursive", .letter = 'R', .help = "change everything below too"}}, run_chmod),
      writer("touch", "Set a file's times, creating it if it is missing", {many},
             {{.name = "no-create", .letter = 'c', .help = "do not create files"},
              {.name = "time",
               .letter = 'd',
               .value = "TIME",
               .help = "use this time instead of now",
               .kind = ValueKind::kTime}},
             run_touch),
  };
}

}  // namespace warren::cli
