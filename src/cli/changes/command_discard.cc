// discard: drops an agent's changes to its base.
#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "base/printable.h"
#include "changes/commits/commits.h"
#include "changes/commits/left_in_git.h"
#include "changes/commits/stray_commits.h"
#include "changes/filter.h"
#include "changes/git/git_folder.h"
#include "changes/undo/discard.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/session_here.h"
#include "cli/changes/tidy_session.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "os/terminal.h"
#include "session/finished_session.h"

namespace warren::cli {
namespace {

// What a discard drops, as people know it: files, and what is only in the agent's .git.
struct Dropped {
  std::vector<TreeChange> files;    // without those in .git, unless they were named
  bool is_in_git = false;           // something in .git goes, too
  std::uint64_t commits = 0;        // that the base's repository does not have
  std::string subject;              // of the last one
  std::vector<std::string> in_git;  // "the stash"
};

// The commits that go with what is dropped in .git: on branches, and on none. Prints why, if that cannot be known.
void count_commits(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                   Dropped& dropped) {
  auto count_on_branches = [&]() -> Status {
    std::optional<AgentCommits> found = WARREN_TRY(find_commits(overlay));
    if (!found || found->brings.empty()) return Ok{};
    auto import = WARREN_TRY(CommitImport::prepare(overlay, *found, found->brings.front().commit, all));
    CommitImport::Description described = WARREN_TRY(import->describe(found->brings));
    dropped.commits = described.count;
    dropped.subject = std::move(described.subject);
    return Ok{};
  };
  auto count_strays = [&]() -> Status {
    StrayObjects strays = WARREN_TRY(find_stray_objects(overlay, all));
    dropped.commits += strays.commits;
    if (dropped.subject.empty()) dropped.subject = std::move(strays.subject);
    return Ok{};
  };
  for (const Status& counted : {count_on_branches(), count_strays()}) {
    if (counted.ok()) continue;
    context.err.print("cannot tell which commits are dropped: {}\n", context.err.name(counted.error().message()));
  }
}

Result<Dropped> describe_dropped(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                                 std::vector<TreeChange> changes, const std::vector<std::string>& patterns) {
  Dropped dropped;
  dropped.is_in_git = std::ranges::any_of(changes, [](const TreeChange& change) { return is_in_git_dir(change.path); });
  std::vector<TreeChange> in_git = WARREN_TRY(leave_out_git(overlay, changes, patterns));
  dropped.files = std::move(changes);
  if (!dropped.is_in_git) return dropped;
  count_commits(context, overlay, all, dropped);
  dropped.in_git = list_left_in_git(overlay, in_git);
  return dropped;
}

// "2 added, 1 commit that is nowhere else: 'subject', the stash".
std::string text_of(const Dropped& dropped) {
  std::vector<std::string> parts;
  if (!dropped.files.empty()) parts.push_back(summary_text(summarise(dropped.files)));
  if (dropped.commits > 0) {
    parts.push_back(
        fmt::format("{} nowhere else: {}",
                    dropped.commits == 1 ? "1 commit that is" : fmt::format("{} commits that are", dropped.commits),
                    quote(printable(dropped.subject))));
  }
  for (const std::string& one : dropped.in_git) parts.push_back(printable(one));
  if (parts.empty()) return "git's own files in .git";
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Whether the user agrees, or has done so.
Result<bool> agrees_to_drop(Context& context, const Arguments& args, const Dropped& dropped) {
  if (args.has("yes")) return true;
  if (!is_terminal(context.input)) {
    return Error(
        Code::kInvalid,
        fmt::format("dropping changes needs --yes when standard input is not a terminal ({})", text_of(dropped)),
        "`warren diff` shows the changes");
  }
  for (const TreeChange& change : dropped.files) {
    std::string note = metadata_note(change);
    context.err.line(change_line(change) + (note.empty() ? "" : fmt::format("  [{}]", note)));
  }
  bool is_wanted = WARREN_TRY(ask_yes(context, fmt::format("Drop these changes permanently ({})?", text_of(dropped))));
  if (!is_wanted) context.err.line("nothing was dropped");
  return is_wanted;
}

// What no list shows is dropped, too, but not counted.
void leave_uncounted(std::vector<TreeChange>& dropped, const std::vector<TreeChange>& every,
                     const std::vector<TreeChange>& listed) {
  std::unordered_set<std::string_view> unlisted;
  for (const TreeChange& change : every) unlisted.insert(change.path);
  for (const TreeChange& change : listed) unlisted.erase(change.path);
  std::erase_if(dropped, [&](const TreeChange& change) { return unlisted.contains(change.path); });
}

Result<Exit> discard_asked(Context& context, const Arguments& args) {
  OverlayAgent opened = WARREN_TRY(open_overlay(args.get("ID"), OpenMode::kReadWrite, context.clock));
  WARREN_TRY(refuse_interrupted(*opened.agent, args.get("ID")));
  std::vector<std::string> patterns = WARREN_TRY(paths_of(args, opened.overlay));
  std::vector<TreeChange> all = WARREN_TRY(list_changes(opened.overlay));
  ChangeFilter filter = filter_of(with_exact_names(patterns, all));
  std::vector<TreeChange> listed = WARREN_TRY(list_every_discarded(opened.overlay, filter));
  std::vector<TreeChange> changes = WARREN_TRY(list_discarded(opened.overlay, filter));
  WARREN_TRY(check_patterns(patterns, changes));
  if (changes.empty()) {
    WARREN_TRY(keep_session(args));
    context.out.line("nothing to discard");
    return Exit::kOk;
  }
  Dropped dropped = WARREN_TRY(describe_dropped(context, opened.overlay, all, changes, patterns));
  if (!WARREN_TRY(agrees_to_drop(context, args, dropped))) return Exit::kFailed;
  const std::vector<TreeChange>* as_listed = args.has("yes") ? nullptr : &listed;  // the user has agreed to that
  dropped.files = WARREN_TRY(discard_changes(opened.overlay, filter, opened.agent.get(), as_listed));
  leave_uncounted(dropped.files, listed, changes);
  WARREN_TRY(leave_out_git(opened.overlay, dropped.files, patterns));
  context.out.print("discarded: {}\n", text_of(dropped));
  WARREN_TRY(keep_session(args));
  return Exit::kOk;
}

Result<Exit> run_discard(Context& context, const Arguments& given) {
  Arguments args = WARREN_TRY(with_session_and_paths(given, context.clock));
  Exit exit = WARREN_TRY(discard_asked(context, args));
  if (exit == Exit::kOk) tidy_session(context, args);
  return exit;
}

}  // namespace

Command make_discard() {
  return {
      .name = "discard",
      .summary = "Drop an agent's changes to its base",
      .details =
          "Without PATH all changes are dropped. Changes that cannot stay are dropped too: everything below a "
          "directory that was added, renamed or deleted, and a new node at the old name of a renamed file. "
          "`warren diff` shows the changes. Without PATH, what the agent has in .git is dropped too: commits that are "
          "nowhere else are named. Dropped changes cannot be restored.",
      .positionals = {optional_id_argument(), changed_path_argument()},
      .options = {{.name = "yes", .letter = 'y', .help = "do not ask"}, keep_option()},
      .subcommands = {},
      .handler = run_discard};
}

}  // namespace warren::cli
