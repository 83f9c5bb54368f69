#include <algorithm>

#include <fmt/format.h>

#include "agent/running.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

Result<Exit> run_ps(Context& context, const Arguments& args) {
  std::vector<Running> all = WARREN_TRY(list_running());
  std::vector<EndedBadly> failures = WARREN_TRY(take_failures());
  for (const EndedBadly& ended : failures) {
    context.err.line(fmt::format("warren: the {} on {} has ended: {}", ended.running.kind,
                                 printable(quote(ended.running.dir)), printable(ended.message)));
  }
  for (const Running& running : all) {
    if (running.lost.empty()) continue;
    context.err.line(
        fmt::format("warren: the {} on {}: {}", running.kind, printable(quote(running.dir)), printable(running.lost)));
  }
  if (args.has("json")) {
    Json list = Json::array();
    for (const Running& running : all) {
      Json one{{"pid", running.process.pid}, {"kind", running.kind}, {"started_at", running.started_at}};
      set_bytes(one, "agent", running.agent);
      set_bytes(one, "dir", running.dir);
      set_bytes(one, "command", running.command);
      if (!running.lost.empty()) set_bytes(one, "lost", running.lost);
      list.push_back(one);
    }
    context.out.json(list);
    return Exit::kOk;
  }
  if (all.empty()) return Exit::kOk;
  std::size_t agent_columns = 5;
  std::size_t dir_columns = 3;
  for (const Running& running : all) {
    agent_columns = std::max(agent_columns, columns_of(printable(running.agent)));
    dir_columns = std::max(dir_columns, columns_of(printable(running.dir)));
  }
  auto row = [&](std::string pid, std::string kind, std::string started, std::string agent, std::string dir,
                 std::string_view command) {
    context.out.print("{}  {}  {}  {}  {}  {}\n", pad_left(std::move(pid), 7), pad_right(std::move(kind), 5),
                      pad_right(std::move(started), 19), pad_right(std::move(agent), agent_columns),
                      pad_right(std::move(dir), dir_columns), command);
  };
  row("PID", "KIND", "STARTED", "AGENT", "DIR", "COMMAND");
  for (const Running& running : all) {
    row(std::to_string(running.process.pid), running.kind, context.out.time(running.started_at),
        printable(running.agent), printable(running.dir), printable(running.command));
  }
  return Exit::kOk;
}

}  // namespace

Command make_ps() {
  return {.name = "ps",
          .summary = "List processes that serve an agent: mounts, and commands run inside one",
          .details = "",
          .positionals = {},
          .options = {json_option()},
          .subcommands = {},
          .handler = run_ps};
}

}  // namespace warren::cli
