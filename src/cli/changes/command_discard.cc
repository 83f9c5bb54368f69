// discard: drops an agent's changes to its base.
#include <fmt/format.h>

#include "changes/filter.h"
#include "changes/undo/discard.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/session_here.h"
#include "cli/changes/tidy_session.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

// False if there was nothing to discard.
Result<bool> discard_asked(Context& context, const Arguments& args, Exit& exit) {
  OverlayAgent opened = WARREN_TRY(open_overlay(args.get("ID"), OpenMode::kReadWrite, context.clock));
  WARREN_TRY(refuse_interrupted(*opened.agent, args.get("ID")));
  std::vector<std::string> patterns = WARREN_TRY(paths_of(args, opened.overlay));
  std::vector<TreeChange> all = WARREN_TRY(list_changes(opened.overlay));
  ChangeFilter filter = filter_of(with_exact_names(patterns, all));
  std::vector<TreeChange> changes = WARREN_TRY(list_discarded(opened.overlay, filter));
  WARREN_TRY(check_patterns(patterns, changes));
  if (changes.empty()) {
    context.out.line("nothing to discard");
    return false;
  }
  if (!args.has("yes")) {
    if (!is_terminal(context.input)) {
      return Error(Code::kInvalid,
                   fmt::format("dropping changes needs --yes when standard input is not a terminal ({})",
                               summary_text(summarise(changes))),
                   "`warren diff` shows the changes");
    }
    for (const TreeChange& change : changes) context.err.line(change_line(change));
    bool is_wanted = WARREN_TRY(
        ask_yes(context, fmt::format("Drop these changes permanently ({})?", summary_text(summarise(changes)))));
    if (!is_wanted) {
      context.err.line("nothing was dropped");
      exit = Exit::kFailed;
      return false;
    }
  }
  std::vector<TreeChange> dropped = WARREN_TRY(discard_changes(opened.overlay, filter, opened.agent.get()));
  context.out.print("discarded: {}\n", summary_text(summarise(dropped)));
  return true;
}

Result<Exit> run_discard(Context& context, const Arguments& given) {
  Arguments args = WARREN_TRY(with_session_here(given));
  Exit exit = Exit::kOk;
  if (WARREN_TRY(discard_asked(context, args, exit))) tidy_session(context, args);
  return exit;
}

}  // namespace

Command make_discard() {
  return {.name = "discard",
          .summary = "Drop an agent's changes to its base",
          .details =
              "Without PATH all changes are dropped. Changes that cannot stay are dropped too: everything below a "
              "directory that was added, renamed or deleted, and a new node at the old name of a renamed file. "
              "`warren diff` shows the changes. Dropped changes cannot be restored.",
          .positionals = {optional_id_argument(), changed_path_argument()},
          .options = {{.name = "yes", .letter = 'y', .help = "do not ask"}, keep_option()},
          .subcommands = {},
          .handler = run_discard};
}

}  // namespace warren::cli
