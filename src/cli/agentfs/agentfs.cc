// `agentfs`: the command line of AgentFS 0.6.4, with its output and exit statuses.
//
// AgentFS scripts depend on this output: do not reword it.
#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_state.h"
#include "agent/copies/create.h"
#include "agent/files/transfer.h"
#include "agent/keys/file_key.h"
#include "agent/locate.h"
#include "base/path.h"
#include "base/printable.h"
#include "cli/agentfs/agentfs_mount.h"
#include "cli/agentfs/agentfs_run.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/call_output.h"
#include "cli/show/timeline.h"
#include "fs/path_ops.h"
#include "fs/walked_dirs.h"
#include "store/migrate.h"
#include "store/schema.h"

namespace warren::cli {
namespace {

// AgentFS's message for an error, or ours if it has none.
std::string words_for(const Error& error) {
  switch (error.code()) {
    case Code::kNotFound: return "Path does not exist";
    case Code::kExists: return "Path already exists";
    case Code::kNotEmpty: return "Directory not empty";
    case Code::kNotDirectory: return "Not a directory";
    case Code::kIsDirectory: return "Is a directory";
    case Code::kLoop: return "Too many levels of symbolic links";
    case Code::kNameTooLong: return "Filename too long";
    default: return error.message();
  }
}

Error in_their_words(const Error& error) { return Error(error.code(), words_for(error)); }

// AgentFS encrypts whole files with its own engine; we do not, and must not pretend to.
Status refuse_encryption(const Arguments& args) {
  if (args.has("key") && !args.has("cipher")) return Error(Code::kInvalid, "--cipher is required when using --key");
  if (args.has("cipher") && !args.has("key")) return Error(Code::kInvalid, "--key is required when using --cipher");
  if (args.has("key"))
    return Error(Code::kUnsupported, "encryption not supported: a key in an argument list can be seen by other users",
                 "`warren init ID --encrypt` makes an encrypted agent, which every command then opens with its key");
  return Ok{};
}

Result<std::unique_ptr<Agent>> open(Context& context, const Arguments& args, OpenMode mode) {
  WARREN_TRY(locate_for_agentfs(args.get("ID_OR_PATH")));
  auto agent =
      WARREN_TRY(Agent::open({.id_or_path = args.get("ID_OR_PATH"), .mode = OpenMode::kReadOnly}, context.clock));
  const Schema& schema = schema_of(*agent);
  if (!schema.is_current()) {
    return Error(Code::kReadOnly,
                 fmt::format("schema version mismatch: database is version {}, expected 0.4", name_of(schema.version)));
  }
  if (mode == OpenMode::kReadOnly && agent->audit_level() != AuditLevel::kReads) return agent;
  agent.reset();
  AgentOptions options{.id_or_path = args.get("ID_OR_PATH"), .mode = mode};
  options.may_record = true;
  options.caller = {.agent = {}, .space = Space::kKernel, .door = "agentfs", .session = {}, .trace = trace_of(context)};
  return Agent::open(options, context.clock);
}

Status refuse_other_features(const Arguments& args) {
  for (std::string_view name : {"sync-remote-url", "sync-partial-prefetch", "sync-partial-segment-size",
                                "sync-partial-bootstrap-query", "sync-partial-bootstrap-length"}) {
    if (args.has(name)) return Error(Code::kUnsupported, fmt::format("--{} is not supported by Warren", name));
  }
  return Ok{};
}

Result<Exit> run_init(Context& context, const Arguments& args) {
  WARREN_TRY(refuse_encryption(args));
  WARREN_TRY(refuse_other_features(args));
  if (args.has("command")) WARREN_TRY(refuse_nfs(args.get("backend")));
  CreateOptions options{
      .id = args.find("ID"), .replace = args.has("force") ? Replace::kYes : Replace::kNo, .base = args.find("base")};
  if (options.id && !is_agent_id(*options.id)) {
    return Error(Code::kInvalid, fmt::format("Invalid agent ID {}. Agent IDs {}.", quote(*options.id), kIdRule));
  }
  Result<CreatedAgent> agent = create_agent(options, context.clock);
  if (!agent.ok()) {
    switch (agent.error().code()) {
      case Code::kExists:
        return Error(Code::kExists,
                     fmt::format("Agent {} already exists at {}. Use --force to overwrite.",
                                 quote(options.id.value_or("")), quote(path_of_agent(options.id.value_or("")))));
      case Code::kNotFound:
        return Error(Code::kNotFound, fmt::format("Base directory does not exist: {}", printable(*options.base)));
      case Code::kNotDirectory:
        return Error(Code::kNotDirectory, fmt::format("Base path is not a directory: {}", printable(*options.base)));
      default: return agent.error();
    }
  }
  context.err.print("Created {} filesystem: {}\n", agent->base ? "overlay" : "agent", context.err.name(agent->path));
  context.err.print("Agent ID: {}\n", agent->id);
  if (agent->base) context.err.print("Base: {}\n", context.err.name(*options.base));
  if (!args.has("command")) return Exit::kOk;
  return run_in_agentfs(context, agent->path, {"sh", "-c", args.get("command")}, args.get("backend"));
}

Result<Exit> run_ls(Context& context, const Arguments& args) {
  WARREN_TRY(refuse_encryption(args));
  WARREN_TRY(locate_for_agentfs(args.get("ID_OR_PATH")));
  context.err.print("Using agent: {}\n", context.err.name(args.get("ID_OR_PATH")));
  auto agent = WARREN_TRY(open(context, args, OpenMode::kReadOnly));
  if (args.get("FS_PATH") != "/") return Error(Code::kInvalid, "Only root directory (/) is currently supported");
  WalkedDirs walked(agent->fs());
  std::deque<std::string> pending{""};
  while (!pending.empty()) {
    std::string prefix = std::move(pending.front());
    pending.pop_front();
    std::vector<NamedAttributes> entries = WARREN_TRY(read_dir_plus(agent->fs(), "/" + prefix));
    for (const NamedAttributes& entry : entries) {
      bool is_dir = entry.attributes.is_directory();
      std::string path = prefix.empty() ? entry.name : fmt::format("{}/{}", prefix, entry.name);
      context.out.print("{} {}\n", is_dir ? 'd' : 'f', context.out.exact_name(path));
      if (!is_dir) continue;
      WARREN_TRY(walked.enter(entry.attributes.inode, path));
      pending.push_back(std::move(path));
    }
    WARREN_TRY(context.out.status());
  }
  return Exit::kOk;
}

Result<Exit> run_cat(Context& context, const Arguments& args) {
  WARREN_TRY(refuse_encryption(args));
  auto agent = WARREN_TRY(open(context, args, OpenMode::kReadOnly));
  const std::string& path = args.get("FILE_PATH");
  Status done = read_to(agent->fs(), path, [&](Bytes data) {
    context.out.raw(as_text(data));
    return context.out.status();
  });
  if (done.ok()) return Exit::kOk;
  bool is_missing = done.error().code() == Code::kNotFound || done.error().code() == Code::kNotDirectory;
  if (is_missing) return Error(Code::kNotFound, fmt::format("File not found: {}", printable(path)));
  return in_their_words(done.error());
}

Result<Exit> run_write(Context& context, const Arguments& args) {
  WARREN_TRY(refuse_encryption(args));
  auto agent = WARREN_TRY(open(context, args, OpenMode::kReadWrite));
  Status done = write_file(agent->fs(), args.get("FILE_PATH"), as_bytes(args.get("CONTENT")));
  if (!done.ok()) return in_their_words(done.error());
  return Exit::kOk;
}

// AgentFS prints the members of objects sorted by name.
Json sorted(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) out.push_back(sorted(item));
    return out;
  }
  if (!value.is_object()) return value;
  std::map<std::string, Json> members;
  for (const auto& [key, member] : value.items()) members[key] = sorted(member);
  Json out = Json::object();
  for (const auto& [key, member] : members) out[key] = member;
  return out;
}

Result<Exit> run_timeline(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open(context, args, OpenMode::kReadOnly));
  std::vector<ToolCall> calls = WARREN_TRY(agent->tools().list(call_filter(args)));
  if (args.get("format") == "table") {
    print_calls(context.out, calls, Durations::kAsAgentFs);
    return Exit::kOk;
  }
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    Json item = call_json(call);
    for (const char* key : {"parameters", "result"}) {
      if (item.contains(key)) item[key] = sorted(item[key]);
    }
    list.push_back(std::move(item));
  }
  context.out.json(list);
  return Exit::kOk;
}

void print_pending(Output& out, const MigrationReport& report) {
  for (const MigrationStep& step : report.steps) {
    std::string_view what = step.to == "0.2" ? "Add nlink column to fs_inode"
                                             : "Add atime_nsec, mtime_nsec, ctime_nsec, rdev columns to fs_inode";
    out.print("  - v{} -> v{}: {}\n", step.from, step.to, what);
  }
}

void print_applied(Output& out, const MigrationReport& report) {
  for (const MigrationStep& step : report.steps) {
    out.print("  Migrating v{} -> v{}...\n", step.from, step.to);
    for (const std::string& action : step.actions) {
      bool is_theirs = action.starts_with("Added ") && action.ends_with(" column to fs_inode");
      if (is_theirs) out.print("    {}\n", action);
    }
    out.print("  v{} -> v{} migration complete.\n", step.from, step.to);
  }
}

Result<Exit> run_migrate(Context& context, const Arguments& args) {
  std::string path = WARREN_TRY(locate_for_agentfs(args.get("ID_OR_PATH")));
  if (path == kMemoryAgent) return Error(Code::kNotFound, fmt::format("Database not found: {}", path));
  bool is_dry = args.has("dry-run");
  Output& out = context.out;
  out.print("Database: {}\n", out.name(path));
  MigrationReport report = WARREN_TRY(migrate_agent(path, is_dry ? DryRun::kYes : DryRun::kNo, agent_keys(path)));
  out.print("Current schema version: {}\nTarget schema version: 0.4\n", report.from);
  if (report.steps.empty()) {
    out.line("Database is already at the latest schema version.");
  } else if (is_dry) {
    out.line("\n[DRY RUN] The following migrations would be applied:");
    print_pending(out, report);
    out.line("\nRun without --dry-run to apply migrations.");
  } else {
    out.line("\nApplying migrations...");
    print_applied(out, report);
    out.line("\nMigration completed successfully.");
  }
  return Exit::kOk;
}

std::vector<Option> encryption_options() {
  return {{.name = "key", .value = "KEY", .help = "not supported by Warren", .environment = "AGENTFS_KEY"},
          {.name = "cipher", .value = "CIPHER", .help = "not supported by Warren", .environment = "AGENTFS_CIPHER"}};
}

Positional id_or_path() {
  return {.name = "ID_OR_PATH",
          .help = "the agent: an id in ./.agentfs, or the path of its file",
          .suggest = Suggest::kAgents};
}

Command make_agentfs_fs() {
  Positional file{.name = "FILE_PATH", .help = "a path in the agent"};
  Positional where{.name = "FS_PATH", .help = "what to list", .times = Times::kOptional, .fallback = "/"};
  return {.name = "fs",
          .summary = "Work with an agent's files",
          .details = "",
          .positionals = {id_or_path()},
          .options = encryption_options(),
          .subcommands = {{.name = "ls",
                           .summary = "List all files",
                           .details = "",
                           .positionals = {where},
                           .options = {},
                           .subcommands = {},
                           .handler = run_ls},
                          {.name = "cat",
                           .summary = "Print a file",
                           .details = "",
                           .positionals = {file},
                           .options = {},
                           .subcommands = {},
                           .handler = run_cat},
                          {.name = "write",
                           .summary = "Write a file",
                           .details = "",
                           .positionals = {file, {.name = "CONTENT", .help = "the new content"}},
                           .options = {},
                           .subcommands = {},
                           .handler = run_write}},
          .handler = nullptr};
}

Command make_agentfs_init() {
  std::vector<Option> options{{.name = "force", .help = "replace the agent if it exists; its content is lost"},
                              {.name = "base",
                               .value = "BASE",
                               .help = "use this directory as the agent's base (copy-on-write)",
                               .suggest = Suggest::kHostDirs}};
  for (Option& option : encryption_options()) options.push_back(option);
  options.push_back({.name = "command", .letter = 'c', .value = "COMMAND", .help = "run it inside the new agent"});
  options.push_back(
      {.name = "backend", .value = "BACKEND", .help = "how to mount", .choices = {"fuse", "nfs"}, .fallback = "fuse"});
  for (std::string_view name : {"sync-remote-url", "sync-partial-prefetch", "sync-partial-segment-size",
                                "sync-partial-bootstrap-query", "sync-partial-bootstrap-length"}) {
    options.push_back({.name = name, .value = "VALUE", .help = "not supported by Warren"});
  }
  return {.name = "init",
          .summary = "Create an agent",
          .details = "",
          .positionals = {{.name = "ID", .help = "its id [default: agent-<Unix time>]", .times = Times::kOptional}},
          .options = options,
          .subcommands = {},
          .handler = run_init};
}

}  // namespace

Command make_agentfs() {
  Command root{.name = "agentfs",
               .summary = "The filesystem for agents (Warren, answering as AgentFS)",
               .details = "",
               .positionals = {},
               .options = {{.name = "version", .letter = 'V', .help = "print the version"}},
               .subcommands = {},
               .handler = nullptr};
  root.subcommands.push_back(make_completions());
  root.subcommands.push_back(make_complete());
  root.subcommands.push_back(make_agentfs_init());
  root.subcommands.push_back(make_agentfs_fs());
  root.subcommands.push_back({.name = "timeline",
                              .summary = "Show an agent's tool calls",
                              .details = "",
                              .positionals = {id_or_path()},
                              .options = timeline_options(),
                              .subcommands = {},
                              .handler = run_timeline});
  root.subcommands.push_back({.name = "migrate",
                              .summary = "Upgrade an agent file to the current schema",
                              .details = "",
                              .positionals = {id_or_path()},
                              .options = {{.name = "dry-run", .help = "show what would be done"}},
                              .subcommands = {},
                              .handler = run_migrate});
  root.subcommands.push_back(make_agentfs_run());
  root.subcommands.push_back(make_agentfs_ps());
  for (Command& command : make_agentfs_mounts()) root.subcommands.push_back(std::move(command));
  root.subcommands.push_back(make_agentfs_diff());
  root.subcommands.push_back(make_help());
  return root;
}

}  // namespace warren::cli
