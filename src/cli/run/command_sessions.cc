#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/copies/create.h"
#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/apply/apply_record.h"
#include "changes/pinned/linked_worktree.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/terminal.h"
#include "session/run_session.h"
#include "session/session_summary.h"

namespace warren::cli {
namespace {

constexpr std::size_t kSharedShown = 3;   // files of one group of sessions
constexpr std::size_t kSharedLines = 20;  // groups of sessions

// A session with what it has changed; nullopt if that cannot be read, for example because the base is gone.
struct ListedSession {
  SessionInfo info;
  std::optional<SessionSummary> summary;
};

std::uint64_t count_of(const ChangeSummary& sum) { return sum.added + sum.modified + sum.deleted + sum.renamed; }

ListedSession summarised(SessionInfo info, Clock& clock) {
  ListedSession one{.info = std::move(info), .summary = std::nullopt};
  Result<SessionDir> dir = SessionDir::open_existing(one.info.id);
  Result<SessionSummary> summary = dir.ok() ? summarise_session(*dir, clock) : Result<SessionSummary>(dir.error());
  if (summary.ok()) one.summary = *std::move(summary);
  return one;
}

Result<std::vector<ListedSession>> list_newest_first(Clock& clock) {
  std::vector<SessionInfo> all = WARREN_TRY(list_sessions());
  std::stable_sort(all.begin(), all.end(), was_used_later);
  std::vector<ListedSession> listed;
  for (SessionInfo& info : all) listed.push_back(summarised(std::move(info), clock));
  return listed;
}

Json json_of(const ListedSession& session) {
  Json one{{"id", session.info.id}};
  set_bytes(one, "base", session.info.base);
  one["used_at"] = session.info.used_at;
  one["size_bytes"] = session.info.size_bytes;
  one["running"] = session.info.is_running;
  if (session.summary) {
    const ChangeSummary& sum = session.summary->changes;
    one["changes"] = {
        {"added", sum.added}, {"modified", sum.modified}, {"deleted", sum.deleted}, {"renamed", sum.renamed}};
    one["new_commits"] = session.summary->has_commits;
    one["left"] = session.summary->left;
  }
  Json processes = Json::array();
  for (const SessionProcess& process : session.info.processes) {
    Json each{{"pid", process.pid}, {"owner", process.is_owner}, {"started_at", process.started_at}};
    set_bytes(each, "command", process.command);
    processes.push_back(std::move(each));
  }
  one["processes"] = std::move(processes);
  return one;
}

std::string changes_text(const ListedSession& session) {
  if (!session.summary) return "?";
  std::uint64_t count = count_of(session.summary->changes);
  std::string text = fmt::format("{}", count);
  if (session.summary->has_commits) text += " + commits";
  for (const std::string& what : session.summary->left) text += " + " + what;
  return text;
}

// What is lost with it: " (3 changes + commits + the stash)". "" if there is nothing.
std::string loss_text(const ListedSession& session) {
  if (!session.summary) return " (its changes cannot be read)";
  if (session.summary->is_empty()) return "";
  std::uint64_t count = count_of(session.summary->changes);
  std::string text = fmt::format(" ({} change{}", count, count == 1 ? "" : "s");
  return text + changes_text(session).substr(fmt::formatted_size("{}", count)) + ")";
}

// "5m": how long ago it was used.
std::string age_text(std::int64_t seconds) {
  seconds = std::max<std::int64_t>(seconds, 0);
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{}h", seconds / 3600);
  return fmt::format("{}d", seconds / (24 * 3600));
}

// "a", "a and b", "a, b and c"
std::string joined_ids(const std::vector<std::string>& ids) {
  std::string text = ids.front();
  for (std::size_t i = 1; i < ids.size(); ++i) text += (i + 1 < ids.size() ? ", " : " and ") + ids[i];
  return text;
}

// Those sessions that change the same files of one project, with the files: whoever applies them must merge.
using SharedFiles = std::map<std::vector<std::string>, std::vector<std::string>>;

// The same for all worktrees of a repository.
std::string project_of(const std::string& base) {
  std::optional<LinkedWorktree> linked = find_linked_worktree(base);
  return linked ? linked->common : base + "/.git";
}

SharedFiles find_shared(const std::vector<ListedSession>& all) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> by_file;  // project and path: sessions
  for (const ListedSession& session : all) {
    if (!session.summary) continue;
    std::string project = project_of(session.info.base);
    for (const std::string& file : session.summary->files) {
      std::vector<std::string>& ids = by_file[{project, file}];
      // One path may have two changes: what was there is deleted, and something else is added.
      if (ids.empty() || ids.back() != session.info.id) ids.push_back(session.info.id);
    }
  }
  SharedFiles shared;
  for (const auto& [file, ids] : by_file) {
    if (ids.size() > 1) shared[ids].push_back(file.second);
  }
  return shared;
}

void print_shared(Output& out, const std::vector<ListedSession>& all) {
  SharedFiles shared = find_shared(all);
  std::size_t lines = 0;
  for (const auto& [ids, files] : shared) {
    if (lines++ == kSharedLines) {
      out.print("and {} more groups of sessions change the same files\n", shared.size() - kSharedLines);
      return;
    }
    std::string names;
    for (std::size_t k = 0; k < files.size() && k < kSharedShown; ++k)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", out.name(files[k]));
    if (files.size() > kSharedShown) names += fmt::format(" and {} more", files.size() - kSharedShown);
    out.print("{} {} change {}\n", joined_ids(ids), ids.size() == 2 ? "both" : "all", names);
  }
}

Result<Exit> run_list(Context& context, const Arguments& args) {
  std::vector<ListedSession> all = WARREN_TRY(list_newest_first(context.clock));
  if (args.has("json")) {
    Json list = Json::array();
    for (const ListedSession& session : all) list.push_back(json_of(session));
    context.out.json(list);
    return Exit::kOk;
  }
  if (all.empty()) return Exit::kOk;
  std::size_t columns = 2;
  std::size_t change_columns = std::string_view("CHANGES").size();
  for (const ListedSession& session : all) {
    columns = std::max(columns, columns_of(session.info.id));
    change_columns = std::max(change_columns, columns_of(changes_text(session)));
  }
  auto row = [&](std::string id, std::string changes, std::string age, std::string size, std::string state,
                 std::string base) {
    context.out.print("{}  {}  {}  {}  {}  {}\n", pad_right(std::move(id), columns),
                      pad_right(std::move(changes), change_columns), pad_left(std::move(age), 4),
                      pad_left(std::move(size), 10), pad_right(std::move(state), 7), base);
  };
  row("ID", "CHANGES", "AGE", "SIZE", "STATE", "BASE");
  std::int64_t now = context.clock.now().seconds;
  for (const ListedSession& session : all) {
    row(session.info.id, changes_text(session), age_text(now - session.info.used_at),
        context.out.size(session.info.size_bytes), session.info.is_running ? "running" : "ended",
        printable(session.info.base));
  }
  print_shared(context.out, all);
  return Exit::kOk;
}

// The session that is meant: by its id, or a unique beginning of one that `run` has made up.
Result<std::string> get_session_id(const std::string& given) {
  std::string file = WARREN_TRY(locate_agent(fmt::format("{}{}", kSessionPrefix, session_id_of(given))));
  return agent_id_of(file);
}

Result<Exit> run_rename(Context&, const Arguments& args) {
  std::string from = WARREN_TRY(get_session_id(args.get("FROM")));
  WARREN_TRY(rename_session(from, std::string(session_id_of(args.get("TO")))));
  return Exit::kOk;
}

// Deleting needs a confirmation at the terminal, or --yes.
Result<bool> agrees(Context& context, const std::vector<ListedSession>& doomed) {
  if (!is_terminal(context.input)) {
    return Error(Code::kNotPermitted, "deleting sessions needs --yes when standard input is not a terminal");
  }
  for (const ListedSession& session : doomed) {
    const SessionInfo& info = session.info;
    context.err.line(fmt::format("  {}{}, {}, base {}", info.id, loss_text(session), context.err.size(info.size_bytes),
                                 printable(info.base)));
  }
  context.err.write(fmt::format("Delete {} and everything in {}? [y/N] ", doomed.size() == 1 ? "it" : "them",
                                doomed.size() == 1 ? "it" : "them"));
  std::string answer(64, '\0');
  std::size_t got = WARREN_TRY(read_some(context.input, as_mutable_bytes(answer)));
  answer.resize(got);
  return answer.starts_with('y') || answer.starts_with('Y');
}

// Checked again, since an apply may have begun and been killed while the user was asked.
Status delete_ended(const std::string& id) {
  SessionDir dir = WARREN_TRY(SessionDir::open_existing(id));
  WARREN_TRY(check_none_unfinished(dir.file(), id));
  return delete_session(id);
}

Result<Exit> run_delete(Context& context, const Arguments& args) {
  std::vector<SessionInfo> all = WARREN_TRY(list_sessions());
  std::vector<SessionInfo> doomed;
  for (const std::string& given : args.all("ID")) {
    Result<std::string> known = get_session_id(given);
    if (!known.ok() && known.error().code() == Code::kNotFound) {
      if (delete_unfinished_session(std::string(session_id_of(given))).ok()) continue;
    }
    std::string id = WARREN_TRY(std::move(known));
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
    SessionDir dir = WARREN_TRY(SessionDir::open_existing(id));
    WARREN_TRY(check_none_unfinished(dir.file(), id));
    doomed.push_back(*found);
  }
  if (doomed.empty()) return Exit::kOk;
  std::vector<ListedSession> asked;
  if (!args.has("yes") && is_terminal(context.input)) {
    for (const SessionInfo& info : doomed) asked.push_back(summarised(info, context.clock));
  }
  if (!args.has("yes") && !WARREN_TRY(agrees(context, asked))) return Exit::kFailed;
  for (const SessionInfo& session : doomed) WARREN_TRY(delete_ended(session.id));
  return Exit::kOk;
}

// Those that ended, are older than --older, and have nothing left with --empty. A session that cannot be read is not
// empty. One that a mount or a server has open stays.
Result<std::vector<ListedSession>> list_prunable(Context& context, const Arguments& args) {
  std::vector<ListedSession> all = WARREN_TRY(list_newest_first(context.clock));
  std::optional<std::int64_t> before;
  if (std::optional<std::string> time = args.find("older")) {
    std::chrono::milliseconds age = WARREN_TRY(parse_duration(*time));
    before = context.clock.now().seconds - std::chrono::duration_cast<std::chrono::seconds>(age).count();
  }
  std::vector<ListedSession> doomed;
  for (ListedSession& session : all) {
    bool is_empty = session.summary &&
                    (args.has("ignored") ? session.summary->is_empty_but_for_ignored() : session.summary->is_empty());
    bool is_wanted =
        !session.info.is_running && (!before || session.info.used_at <= *before) && (!args.has("empty") || is_empty);
    if (!is_wanted) continue;
    SessionDir dir = WARREN_TRY(SessionDir::open_existing(session.info.id));
    if (WARREN_TRY(is_open_somewhere(dir.file()))) continue;
    Status can_go = check_none_unfinished(dir.file(), dir.id());
    if (can_go.ok()) doomed.push_back(std::move(session));
    else warn_if_not(context, std::move(can_go).within(fmt::format("session {} stays", quote(dir.id()))));
  }
  return doomed;
}

Result<Exit> run_prune(Context& context, const Arguments& args) {
  if (!args.has("older") && !args.has("empty")) return refuse(context, "prune needs --older TIME, --empty or both");
  if (args.has("ignored") && !args.has("empty")) return refuse(context, "--ignored needs --empty");
  std::vector<ListedSession> doomed = WARREN_TRY(list_prunable(context, args));
  if (doomed.empty()) {
    context.out.line("nothing to delete");
    return Exit::kOk;
  }
  if (args.has("dry-run")) {
    for (const ListedSession& session : doomed)
      context.out.print("would delete {}{}\n", session.info.id, loss_text(session));
    return Exit::kOk;
  }
  if (!args.has("yes") && !WARREN_TRY(agrees(context, doomed))) return Exit::kFailed;
  for (const ListedSession& session : doomed) {
    WARREN_TRY(delete_ended(session.info.id));
    context.out.print("deleted {}{}\n", session.info.id, loss_text(session));
  }
  return Exit::kOk;
}

Command make_prune_sessions() {
  return {.name = "prune",
          .summary = "Delete sessions that are old or have no changes left",
          .details =
              "Running sessions stay. With both options a session must be old and without changes. What is "
              "deleted with a session: its changes, checkpoints, memory and record.",
          .positionals = {},
          .options = {{.name = "older",
                       .value = "TIME",
                       .help = "that were not used for TIME: 7d",
                       .kind = ValueKind::kDuration},
                      {.name = "empty", .help = "whose changes were all applied or discarded"},
                      {.name = "ignored", .help = "with --empty: also if files are left that git ignores"},
                      {.name = "dry-run", .letter = 'n', .help = "only list them"},
                      {.name = "yes", .letter = 'y', .help = "do not ask"}},
          .subcommands = {},
          .handler = run_prune};
}

}  // namespace

Command make_sessions() {
  Positional id{.name = "ID", .help = "sessions to delete", .times = Times::kOnceOrMore, .suggest = Suggest::kSessions};
  Command list{.name = "list",
               .summary = "List the sessions of `warren run`, newest first",
               .details =
                   "Also says which sessions of one base, or of worktrees of one repository, change the same "
                   "files.",
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
          .subcommands = {list, rename, remove, make_prune_sessions()},
          .handler = run_list};
}

}  // namespace warren::cli
