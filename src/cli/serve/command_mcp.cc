// mcp: the configuration of MCP clients.
#include <sys/stat.h>

#include <fmt/format.h>

#include "agent/agent.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/serve/served_view.h"
#include "mcp/install.h"
#include "mcp/service.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

constexpr std::size_t kConfigBytesMax = std::size_t{4} << 20;

Result<mcp::ServerEntry> entry_for(Context& context, const Arguments& args) {
  WARREN_TRY(check_served_options(args));
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  ToolReach reach;
  reach.relay = WARREN_TRY(find_relay_place(context, args));
  WARREN_TRY(allow_tools(args.has("allow") ? args.all("allow") : std::vector<std::string>(), *agent, reach));
  mcp::ToolChoice choice{.is_read_only = args.has("read-only"), .is_for_peer = args.has("as"), .reach = &reach};
  WARREN_TRY(mcp::select_tools(args.find("tools"), choice).within("--tools"));
  mcp::ServerEntry entry;
  entry.name = args.find("name").value_or(fmt::format("warren-{}", agent->id()));
  WARREN_TRY(mcp::check_server_name(entry.name));
  entry.command = WARREN_TRY(canonical_host_path("/proc/self/exe"));
  std::string file = WARREN_TRY(canonical_host_path(agent->path()));
  entry.arguments = {"serve", "mcp", file};
  for (std::string_view option : {"tools", "root", "as", "relay-as"}) {
    std::optional<std::string> value = args.find(option);
    if (!value) continue;
    entry.arguments.push_back(fmt::format("--{}", option));
    entry.arguments.push_back(*value);
  }
  if (reach.relay) {  // the client starts the server in another directory, and without our environment
    std::string relay = WARREN_TRY(canonical_host_path(reach.relay->root)
                                       .within(fmt::format("there is no relay at {}", quote(reach.relay->root))));
    entry.arguments.insert(entry.arguments.end(), {"--relay", std::move(relay)});
  }
  if (args.has("allow")) {
    for (const std::string& word : args.all("allow")) {
      entry.arguments.insert(entry.arguments.end(), {"--allow", word});
    }
  }
  if (args.has("read-only")) entry.arguments.push_back("--read-only");
  return entry;
}

Result<std::string> config_path(Context& context, const mcp::ClientConfig& client) {
  if (client.place == mcp::ConfigPlace::kProject) return std::string(client.file);
  std::optional<std::string> home = context.environment("HOME");
  if (!home || home->empty()) return Error(Code::kNotFound, "HOME is not set, where the configuration is");
  return join_path(*home, client.file);
}

// What a project says is a stranger's: a link there could lead to any file of the user.
Status check_config_place(const std::string& path, const mcp::ClientConfig& client) {
  std::string folder(directory_of(path));
  if (client.place == mcp::ConfigPlace::kProject && folder != ".") {
    std::optional<struct stat> node = WARREN_TRY(find_host_link(folder));
    if (node && !S_ISDIR(node->st_mode))
      return Error(Code::kInvalid, fmt::format("{} is not a directory", quote(folder)));
  }
  std::optional<struct stat> node = WARREN_TRY(find_host_link(path));
  if (!node || S_ISREG(node->st_mode)) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(path)), "change it by hand");
}

Result<std::string> read_config(const std::string& path) {
  std::optional<struct stat> node = WARREN_TRY(find_host_link(path));
  if (!node) return std::string();
  return read_host_file(path, kConfigBytesMax);
}

Status write_config(const std::string& path, const std::string& text) {
  std::optional<struct stat> node = WARREN_TRY(find_host_link(path));
  std::string folder(directory_of(path));
  if (!node && folder != ".") WARREN_TRY(make_host_dirs(folder, 0755));
  return replace_host_file(path, text, node ? node->st_mode & 0777U : 0644U);
}

Result<Exit> run_mcp_install(Context& context, const Arguments& args) {
  if (args.has("write") && args.has("remove")) return refuse(context, "give '--write' or '--remove', not both");
  const mcp::ClientConfig& client = *mcp::find_client_config(args.get("CLIENT"));
  mcp::ServerEntry entry = WARREN_TRY(entry_for(context, args));
  std::string path = WARREN_TRY(config_path(context, client));
  if (!args.has("write") && !args.has("remove")) {
    context.err.print("warren: {} reads this from {}; --write puts it there\n", client.title, quote(path));
    context.out.text(mcp::entry_text(client, entry));
    return Exit::kOk;
  }
  WARREN_TRY(check_config_place(path, client));
  std::string before = WARREN_TRY(read_config(path));
  if (args.has("remove")) {
    std::string after = WARREN_TRY(mcp::without_entry(client, before, entry.name).within(quote(path)));
    if (after.empty()) WARREN_TRY(remove_host_file(path));
    else WARREN_TRY(write_config(path, after));
    context.out.print("removed {} from {}\n", context.out.name(entry.name), context.out.name(path));
    return Exit::kOk;
  }
  std::string after = WARREN_TRY(mcp::with_entry(client, before, entry).within(quote(path)));
  WARREN_TRY(write_config(path, after));
  context.out.print("wrote {} to {}\n", context.out.name(entry.name), context.out.name(path));
  return Exit::kOk;
}

}  // namespace

Command make_mcp() {
  Positional client{.name = "CLIENT", .help = "whose configuration"};
  for (const mcp::ClientConfig& one : mcp::client_configs()) client.choices.push_back(one.name);
  Command install{
      .name = "install",
      .summary = "Print, write or remove an agent's entry in the configuration of an MCP client",
      .details =
          "claude: .mcp.json, cursor: .cursor/mcp.json, vscode: .vscode/mcp.json, gemini: .gemini/settings.json, all "
          "in this directory; codex: ~/.codex/config.toml. Everything else in the file stays.",
      .positionals = {client, id_argument()},
      .options = {{.name = "write", .help = "write the entry into the file"},
                  {.name = "remove", .help = "remove the entry from the file"},
                  {.name = "name", .value = "NAME", .help = "of the server in the file; default: warren-ID"},
                  {.name = "tools", .value = "LIST", .help = "as for `warren serve mcp`"},
                  {.name = "read-only", .help = "as for `warren serve mcp`"},
                  {.name = "root", .value = "PATH", .help = "as for `warren serve mcp`"},
                  {.name = "as", .value = "AGENT", .help = "as for `warren serve mcp`"},
                  {.name = "relay-as", .value = "NAME", .help = "as for `warren serve mcp`"},
                  {.name = "relay", .value = "DIR", .help = "as for `warren serve mcp`", .suggest = Suggest::kHostDirs},
                  {.name = "allow",
                   .value = "WHAT",
                   .help = "as for `warren serve mcp`",
                   .choices = {"run", "apply"},
                   .is_list = true}},
      .subcommands = {},
      .handler = run_mcp_install};
  return {.name = "mcp",
          .summary = "Set up clients of the Model Context Protocol",
          .details = "`warren serve mcp` is the server.",
          .positionals = {},
          .options = {},
          .subcommands = {std::move(install)},
          .handler = nullptr};
}

}  // namespace warren::cli
