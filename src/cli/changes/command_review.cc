// review: choose what to apply on a full screen.
#include "cli/changes/command_review.h"

#include "cli/changes/apply_consent.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/session_here.h"
#include "cli/changes/tidy_session.h"
#include "cli/commands.h"

namespace warren::cli {

Command make_review() {
  return {
      .name = "review",
      .summary = "Review an agent's changes on a full screen, and apply what you take",
      .details =
          "Shows the tree of changes and the patch of the selected one, side by side if the terminal is wide "
          "enough. Space takes or leaves a change, a directory or a part of a file; enter applies what is taken, "
          "after a question; q quits and writes nothing; ? shows all keys. A text file that the base has changed, "
          "too, is decided by parts: m merges it, b writes both versions of what is in conflict. What is left stays a "
          "change of the agent. Commits are not part of it: `warren apply --commits` brings them.",
      .positionals = {optional_id_argument(), changed_path_argument()},
      .options = {exclude_option(),
                  keep_option(),
                  {.name = "yes", .letter = 'y', .help = "also apply files that run by themselves, such as git hooks"},
                  {.name = "trust-base",
                   .value = "DIR",
                   .help = "agree that the agent's base is DIR; needed once for an agent file from elsewhere",
                   .suggest = Suggest::kHostDirs}},
      .subcommands = {},
      .handler = run_review};
}

}  // namespace warren::cli
