// What apply asks before it writes to a base: on a terminal, or by options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "changes/changes.h"
#include "changes/pinned/git_under_way.h"
#include "changes/upper/open_overlay.h"
#include "cli/context.h"

namespace warren::cli {

// Whether the user agrees to write to the agent's base: they created the agent for it, --trust-base names it, or they
// say so now. Without a terminal it is an error that names the option.
Result<bool> agrees_to_base(Context& context, const Arguments& args, const AgentOverlay& overlay);

// Whether the user agrees to files that run by themselves the next time they work in the base: none are among the
// changes, --yes is given, or they say so now. Without a terminal it is an error that names the option.
Result<bool> agrees_to_programs(Context& context, const Arguments& args, const AgentOverlay& overlay,
                                const std::vector<TreeChange>& changes);

// A question of the functions of this file.
struct ApplyQuestion {
  struct File {
    std::string path;
    std::string runs;  // of "programs": when it runs
  };
  std::string about;  // "base", "home", "programs", "git", "commits" or "work"
  std::string why;
  std::string agree;        // the option that answers it
  std::vector<File> files;  // of "programs" and "work"
};

// What they would ask, for a rehearsal: asks nothing and records nothing. kInvalid if --trust-base names another
// directory.
enum class AskAbout { kBase, kBaseAndPrograms };
Result<std::vector<ApplyQuestion>> list_questions(const Arguments& args, const AgentOverlay& overlay,
                                                  const std::vector<TreeChange>& changes, AskAbout what);

// About a merge or rebase that the session is in the middle of. nullopt without one, with --yes, and if a PATH or
// the user has selected only files that git has merged.
std::optional<ApplyQuestion> find_unfinished_question(const Arguments& args, const std::optional<GitUnderWay>& git,
                                                      const std::vector<TreeChange>& changes);
// Whether the user agrees to it now. Without a terminal it is an error that names the option.
Result<bool> agrees_to_unfinished(Context& context, const ApplyQuestion& question);

// Changes that may take back uncommitted work of the user's.
struct WorkInDoubt {
  std::vector<std::string> paths;
  std::string why;  // it is not known
};

// About changes that take back uncommitted work of the user's (TreeChange::takes_back_work), or that may. nullopt if
// there are none, and with --yes.
std::optional<ApplyQuestion> find_taken_back_question(const Arguments& args, const std::vector<TreeChange>& changes,
                                                      const WorkInDoubt& doubt);
// Whether the user agrees to it now. Without a terminal it is an error that names the option.
Result<bool> agrees_to_taken_back(Context& context, const ApplyQuestion& question);

// The command that undoes what this apply did.
std::string undo_command(const Arguments& args);

}  // namespace warren::cli
