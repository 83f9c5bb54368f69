// merge: makes one session of two.
#include <algorithm>

#include <fmt/format.h>

#include "agent/locate.h"
#include "cli/changes/changes_output.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "session/merge_sessions.h"

namespace warren::cli {
namespace {

OnMergeConflict conflict_choice(const Arguments& args) {
  std::string how = args.find("conflict").value_or("");
  if (how == "markers") return OnMergeConflict::kMark;
  if (how == "first") return OnMergeConflict::kFirst;
  return how == "second" ? OnMergeConflict::kSecond : OnMergeConflict::kReport;
}

Json merge_json(const MergedSessions& merged) {
  Json conflicts = Json::array();
  for (const SessionConflict& one : merged.report.conflicts) {
    Json item{{"why", printable(one.why)}, {"settled", one.is_settled}};
    set_bytes(item, "path", one.path);
    if (!one.outcome.empty()) item["outcome"] = printable(one.outcome);
    conflicts.push_back(std::move(item));
  }
  Json texts = Json::array();
  for (const std::string& path : merged.report.merged) texts.push_back(printable(path));
  Json branches = Json::array();
  for (const std::string& branch : merged.report.branches) branches.push_back(printable(branch));
  Json json{{"made", merged.is_made},
            {"taken", merged.report.taken},
            {"merged", texts},
            {"conflicts", conflicts},
            {"branches", branches}};
  if (merged.is_made) json["session"] = merged.id;
  return json;
}

void print_merge_conflicts(Context& context, const MergedSessions& merged) {
  for (const SessionConflict& one : merged.report.conflicts) {
    context.err.print("conflict: {}: {}{}{}\n", context.err.name(one.path), context.err.name(one.why),
                      one.outcome.empty() ? "" : ": ", context.err.name(one.outcome));
  }
  if (merged.is_made) return;
  std::size_t count = merged.report.conflicts.size();
  context.err.line(fmt::format("{} {}: no session was made", context.err.paint(Ink::kRed, "warren:"),
                               count == 1 ? "1 conflict" : fmt::format("{} conflicts", count)));
  context.err.line(
      "hint: --conflict=markers makes it with both versions of each file that has a place, for you or an agent to "
      "decide; --conflict=first and --conflict=second take the version of one session");
}

void print_merged(Context& context, const MergedSessions& merged, OnMergeConflict choice) {
  Output& out = context.out;
  for (const std::string& path : merged.report.merged) out.print("merged: {}\n", out.name(path));
  for (const std::string& branch : merged.report.branches)
    out.print("branch {}: the commits of {}\n", out.name(branch), out.name(merged.second));
  std::size_t taken = merged.report.taken + merged.report.merged.size();
  if (choice == OnMergeConflict::kSecond)
    taken += static_cast<std::size_t>(std::ranges::count_if(merged.report.conflicts, &SessionConflict::is_settled));
  if (choice == OnMergeConflict::kMark)
    taken += static_cast<std::size_t>(
        std::ranges::count_if(merged.report.conflicts, [](const SessionConflict& one) { return one.has_second; }));
  out.print("session {}: {}, and {} of {}\n", out.name(merged.id), out.name(merged.first),
            taken == 1 ? "1 change" : fmt::format("{} changes", taken), out.name(merged.second));
  out.print("  warren diff {}    shows all of it\n", out.name(merged.id));
  out.print("  warren apply {}   writes it to {}\n", out.name(merged.id), "the base");
}

Result<Exit> run_merge(Context& context, const Arguments& args) {
  MergeSessions request{.first = args.get("A"), .second = args.get("B"), .into = {}};
  if (args.has("into")) request.into = std::string(session_id_of(args.get("into")));
  request.on_conflict = conflict_choice(args);
  MergedSessions merged = WARREN_TRY(merge_sessions(request, context.clock));
  if (args.has("json")) context.out.json(merge_json(merged));
  else if (merged.is_made) print_merged(context, merged, request.on_conflict);
  if (!args.has("json")) print_merge_conflicts(context, merged);
  return merged.is_made && merged.report.is_settled() ? Exit::kOk : Exit::kFailed;
}

}  // namespace

Command make_merge() {
  return {.name = "merge",
          .summary = "Make one session of two with the same base",
          .details =
              "The new session is a copy of A with the changes of B merged into it, file by file against what both "
              "started from. Text that both have changed is merged by lines. A and B stay as they are. Commits of B "
              "become branches warren/B of the new session's repository; those of A are where A has them. If there "
              "are conflicts, no session is made and the exit status is 1, unless --conflict says what to do: with "
              "markers the status is 1 too, until somebody has decided.",
          .positionals = {{.name = "A", .help = "the first session", .suggest = Suggest::kAgents},
                          {.name = "B", .help = "the second session", .suggest = Suggest::kAgents}},
          .options = {{.name = "into", .value = "NEW", .help = "the id of the new session [default: A-B]"},
                      {.name = "conflict",
                       .value = "HOW",
                       .help = "markers: keep both versions, in text between conflict markers; first, second: take "
                               "the whole file of A or B",
                       .choices = {"markers", "first", "second"}},
                      json_option()},
          .subcommands = {},
          .handler = run_merge};
}

}  // namespace warren::cli
