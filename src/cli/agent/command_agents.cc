#include "agent/locate.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

Result<Exit> run_agents(Context& context, const Arguments& args) {
  Json list = Json::array();
  std::vector<std::string> ids = WARREN_TRY(list_agents());
  if (ids.empty() && !args.has("json"))
    context.err.line("no agents in this directory; `warren init ID` creates one, `warren sessions` lists sessions");
  for (const std::string& id : ids) {
    std::string path = path_of_agent(id);
    std::optional<struct stat> file = WARREN_TRY(find_host_file(path));
    if (!file) continue;  // removed meanwhile
    auto bytes = static_cast<std::uint64_t>(file->st_size);
    if (args.has("json")) {
      list.push_back({{"id", id}, {"path", path}, {"bytes", bytes}, {"modified", file->st_mtim.tv_sec}});
    } else {
      context.out.print("{:<24} {:>10}  {}\n", id, context.out.size(bytes), context.out.time(file->st_mtim.tv_sec));
    }
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

}  // namespace

Command make_agents() {
  return {.name = "agents",
          .summary = "List the agents in this directory",
          .details = "",
          .positionals = {},
          .options = {json_option()},
          .subcommands = {},
          .handler = run_agents};
}

}  // namespace warren::cli
