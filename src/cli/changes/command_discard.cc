// discard: drops what an agent has changed over its base.
#include <fmt/format.h>

#include "changes/discard.h"
#include "changes/filter.h"
#include "cli/changes/changes_output.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

Result<Exit> run_discard(Context& context, const Arguments& args) {
  const std::vector<std::string>& patterns = args.all("PATH");
  ChangeFilter filter = filter_of(patterns);
  OverlayAgent opened = WARREN_TRY(open_overlay(context, args.get("ID"), Use::kWrite));
  std::vector<TreeChange> changes = WARREN_TRY(list_discarded(opened.overlay, filter));
  WARREN_TRY(check_patterns(patterns, changes));
  if (changes.empty()) {
    context.out.line("nothing to discard");
    return Exit::kOk;
  }
  if (!args.has("yes")) {
    if (!is_terminal(context.input)) {
      return Error(Code::kInvalid, fmt::format("this drops {}", summary_text(summarise(changes))),
                   "--yes drops it without asking; `warren diff` shows it");
    }
    for (const TreeChange& change : changes) context.err.line(change_line(context.err, change));
    bool is_wanted = WARREN_TRY(ask_yes(context, fmt::format("Drop {}, for good?", summary_text(summarise(changes)))));
    if (!is_wanted) {
      context.err.line("nothing was dropped");
      return Exit::kFailed;
    }
  }
  std::vector<TreeChange> dropped = WARREN_TRY(discard_changes(opened.overlay, filter));
  context.out.print("discarded: {}\n", summary_text(summarise(dropped)));
  return Exit::kOk;
}

}  // namespace

Command make_discard() {
  return {.name = "discard",
          .summary = "Drop what an agent has changed, so that its base shows again",
          .details =
              "Without PATH everything is dropped. What cannot stay goes along: everything below a directory that was "
              "added, renamed or deleted, and what stands at the name a renamed file had. `warren diff` shows what "
              "there is; there is no way back.",
          .positionals = {id_argument(), {.name = "PATH", .help = "only changes there", .times = Times::kAny}},
          .options = {{.name = "yes", .letter = 'y', .help = "do not ask"}},
          .subcommands = {},
          .handler = run_discard};
}

}  // namespace warren::cli
