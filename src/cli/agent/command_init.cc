#include "agent/copies/create.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "cli/agent/key_options.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"
#include "session/served_agent.h"

namespace warren::cli {
namespace {

// Runs the command given with -c inside the new agent.
Result<Exit> run_first_command(Context& context, const Arguments& args, const CreatedAgent& agent) {
  if (!args.has("command")) return Exit::kOk;
  WARREN_TRY(context.out.finish());  // our output comes before the command's
  std::string path = WARREN_TRY(canonical_host_path(agent.path));
  int status = WARREN_TRY(run_in_agent(path, {"sh", "-c", args.get("command")}, context.clock));
  return static_cast<Exit>(status);
}

Result<Exit> run_init(Context& context, const Arguments& args) {
  CreateOptions options;
  options.id = args.find("ID");
  if (options.id) {
    std::optional<std::string> session = WARREN_TRY(find_session_file(*options.id));
    if (session) {
      return Error(Code::kExists, fmt::format("init: there is a session {} of `warren run`", quote(*options.id)),
                   "an id names one of the two: choose another one");
    }
  }
  options.replace = args.has("force") ? Replace::kYes : Replace::kNo;
  options.base = args.find("base");
  options.audit = args.has("audit");
  options.encryption = WARREN_TRY(find_encryption(args));
  if (auto bytes = args.find_size("chunk-size")) {
    options.chunk_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(*bytes, UINT32_MAX));
  }
  CreatedAgent agent = WARREN_TRY(create_agent(options, context.clock).within("init"));
  if (args.has("json")) {
    Json json{{"id", agent.id}, {"path", agent.path}};
    if (agent.base) set_bytes(json, "base", *agent.base);
    if (agent.key_note) set_bytes(json, "key_note", *agent.key_note);
    context.out.json(json);
    return run_first_command(context, args, agent);
  }
  context.out.print("created agent {} at {}\n", quote(agent.id), context.out.name(agent.path));
  if (agent.base) context.out.print("base: {}\n", context.out.name(*agent.base));
  if (agent.key_note && options.encryption->key) {
    context.out.print("encrypted; the source of its key is noted in {}\n", context.out.name(*agent.key_note));
  } else if (agent.key_note) {
    context.out.print("encrypted; its key is in {}\n", context.out.name(*agent.key_note));
    context.out.line("keep a copy of that file: without the key, nobody can read the agent again");
  }
  return run_first_command(context, args, agent);
}

}  // namespace

Command make_init() {
  Command init{
      .name = "init",
      .summary = "Create an agent",
      .details = "The agent is the file .agentfs/ID.db in the current directory.",
      .positionals = {{.name = "ID", .help = "its id [default: agent-<Unix time>]", .times = Times::kOptional}},
      .options = {{.name = "force", .letter = 'f', .help = "replace the agent if it exists; its content is lost"},
                  {.name = "base",
                   .value = "DIR",
                   .help = "use this directory as the agent's base (copy-on-write)",
                   .suggest = Suggest::kHostDirs},
                  {.name = "chunk-size",
                   .value = "SIZE",
                   .help = "bytes in a chunk of file data; cannot be changed later [default: 4096]",
                   .kind = ValueKind::kSize},
                  {.name = "audit", .help = "record every change through every door, as `warren audit ID on` does"},
                  {.name = "command",
                   .letter = 'c',
                   .value = "COMMAND",
                   .help = "run this shell command inside the new agent, as `warren exec` does"},
                  json_option()},
      .subcommands = {},
      .handler = run_init};
  for (Option& option : encrypt_options()) init.options.push_back(std::move(option));
  return init;
}

}  // namespace warren::cli
