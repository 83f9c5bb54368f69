#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

Json json_of(const SessionInfo& session) {
  Json one{{"id", session.id}};
  set_bytes(one, "base", session.base);
  one["used_at"] = session.used_at;
  one["size_bytes"] = session.size_bytes;
  one["running"] = session.is_running;
  Json processes = Json::array();
  for (const SessionProcess& process : session.processes) {
    Json each{{"pid", process.pid}, {"owner", process.is_owner}, {"started_at", process.started_at}};
    set_bytes(each, "command", process.command);
    processes.push_back(std::move(each));
  }
  one["processes"] = std::move(processes);
  return one;
}

Result<Exit> run_list(Context& context, const Arguments& args) {
  std::vector<SessionInfo> all = WARREN_TRY(list_sessions());
  if (args.has("json")) {
    Json list = Json::array();
    for (const SessionInfo& session : all) list.push_back(json_of(session));
    context.out.json(list);
    return Exit::kOk;
  }
  if (all.empty()) return Exit::kOk;
  std::size_t columns = 2;
  for (const SessionInfo& session : all) columns = std::max(columns, columns_of(session.id));
  auto row = [&](std::string id, std::string used, std::string size, std::string state, std::string base) {
    context.out.print("{}  {}  {}  {}  {}\n", pad_right(std::move(id), columns), pad_right(std::move(used), 19),
                      pad_left(std::move(size), 10), pad_right(std::move(state), 7), base);
  };
  row("ID", "USED", "SIZE", "STATE", "BASE");
  for (const SessionInfo& session : all) {
    row(session.id, format_time(session.used_at), format_size(session.size_bytes),
        session.is_running ? "running" : "ended", printable(session.base));
  }
  return Exit::kOk;
}

Result<Exit> run_rename(Context&, const Arguments& args) {
  WARREN_TRY(rename_session(std::string(session_id_of(args.get("FROM"))), std::string(session_id_of(args.get("TO")))));
  return Exit::kOk;
}

// Deleting needs a confirmation at the terminal, or --yes.
Result<bool> agrees(Context& context, const std::vector<SessionInfo>& doomed) {
  if (!is_terminal(context.input)) {
    return Error(Code::kNotPermitted, "deleting sessions needs --yes when standard input is not a terminal");
  }
  for (const SessionInfo& session : doomed) {
    context.err.line(
        fmt::format("  {} ({}, base {})", session.id, format_size(session.size_bytes), printable(session.base)));
  }
  context.err.write(fmt::format("Delete {} and everything in {}? [y/N] ", doomed.size() == 1 ? "it" : "them",
                                doomed.size() == 1 ? "it" : "them"));
  std::string answer(64, '\0');
  std::size_t got = WARREN_TRY(read_some(context.input, as_mutable_bytes(answer)));
  answer.resize(got);
  return answer.starts_with('y') || answer.starts_with('Y');
}

Result<Exit> run_delete(Context& context, const Arguments& args) {
  std::vector<SessionInfo> all = WARREN_TRY(list_sessions());
  std::vector<SessionInfo> doomed;
  for (const std::string& given : args.all("ID")) {
    std::string id(session_id_of(given));
    auto named = [&](const SessionInfo& session) { return session.id == id; };
    if (std::any_of(doomed.begin(), doomed.end(), named)) continue;
    auto found = std::find_if(all.begin(), all.end(), named);
    if (found == all.end()) {
      return Error(Code::kNotFound, fmt::format("no session {}", quote(id)), "`warren sessions` lists them");
    }
    if (found->is_running) {
      return Error(Code::kBusy, fmt::format("session {} is running", quote(id)),
                   "end its commands first; `warren ps` lists them");
    }
    doomed.push_back(*found);
  }
  if (!args.has("yes") && !WARREN_TRY(agrees(context, doomed))) return Exit::kFailed;
  for (const SessionInfo& session : doomed) WARREN_TRY(delete_session(session.id));
  return Exit::kOk;
}

}  // namespace

Command make_sessions() {
  Positional id{.name = "ID", .help = "sessions to delete", .times = Times::kOnceOrMore, .suggest = Suggest::kSessions};
  Command list{.name = "list",
               .summary = "List the sessions of `warren run`",
               .details = "",
               .positionals = {},
               .options = {json_option()},
               .subcommands = {},
               .handler = run_list};
  Command rename{.name = "rename",
                 .summary = "Rename a session",
                 .details = "",
                 .positionals = {{.name = "FROM", .help = "its id", .suggest = Suggest::kSessions},
                                 {.name = "TO", .help = "the new id"}},
                 .options = {},
                 .subcommands = {},
                 .handler = run_rename};
  Command remove{.name = "delete",
                 .summary = "Delete sessions and all changes in them",
                 .details = "",
                 .positionals = {id},
                 .options = {{.name = "yes", .letter = 'y', .help = "do not ask"}},
                 .subcommands = {},
                 .handler = run_delete};
  return {.name = "sessions",
          .summary = "List, rename and delete the sessions of `warren run`",
          .details = "",
          .positionals = {},
          .options = {json_option()},
          .subcommands = {list, rename, remove},
          .handler = run_list};
}

}  // namespace warren::cli
