#include "cli/changes/apply_consent.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "base/shell_word.h"
#include "changes/apply/permission.h"
#include "changes/apply/resolve.h"
#include "cli/changes/changes_output.h"
#include "os/files/host_files.h"
#include "os/terminal.h"
#include "session/home_layer.h"

namespace warren::cli {
namespace {

// Whether --trust-base names the base; an error if it names another directory.
Result<bool> is_named(const Arguments& args, const AgentOverlay& overlay) {
  std::optional<std::string> named = args.find("trust-base");
  if (!named) return false;
  std::string asked = WARREN_TRY(canonical_host_path(*named).within("--trust-base"));
  std::string base = WARREN_TRY(canonical_host_path(overlay.base_path));
  if (asked == base) return true;
  return Error(Code::kInvalid, fmt::format("the base of this agent is {}, not {}", quote(base), quote(asked)),
               "`warren apply --to DIR` writes the changes to another directory");
}

Result<std::optional<ApplyQuestion>> find_base_question(const Arguments& args, const AgentOverlay& overlay) {
  std::optional<std::string> doubt = WARREN_TRY(find_doubt(overlay));
  if (WARREN_TRY(is_named(args, overlay)) || !doubt) return std::optional<ApplyQuestion>();
  return std::optional(ApplyQuestion{.about = "base",
                                     .why = *std::move(doubt),
                                     .agree = fmt::format("--trust-base {}", quote(overlay.base_path)),
                                     .files = {}});
}

// In a home no list of names could be complete.
ApplyQuestion home_question(std::size_t count) {
  return {.about = "home",
          .why = fmt::format("{} in your home directory, where shells, package managers and agents run much of what "
                             "they find",
                             count == 1 ? "1 change" : fmt::format("{} changes", count)),
          .agree = "--yes",
          .files = {}};
}

struct ProgramsQuestion {
  ApplyQuestion question;
  bool is_in_git = false;
};

// nullopt if none of the changes runs by itself.
Result<std::optional<ProgramsQuestion>> find_programs_question(const AgentOverlay& overlay,
                                                               const std::vector<TreeChange>& changes) {
  ProgramsQuestion found{.question = {.about = "programs", .why = {}, .agree = "--yes", .files = {}}};
  std::vector<SelfRunningFile> files = WARREN_TRY(list_self_running(overlay, changes));
  for (SelfRunningFile& file : files) {
    found.is_in_git = found.is_in_git || file.is_in_git;
    found.question.files.push_back({std::move(file.path), std::move(file.runs)});
  }
  std::size_t count = found.question.files.size();
  if (count == 0) return std::optional<ProgramsQuestion>();
  found.question.why = fmt::format("{} may run the next time you work in the base",
                                   count == 1 ? "1 file" : fmt::format("{} files", count));
  return std::optional(std::move(found));
}

Result<bool> agrees_to_home(Context& context, const AgentOverlay& overlay, std::size_t count) {
  ApplyQuestion question = home_question(count);
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written: {}", question.why),
                 fmt::format("look at the diff; then add {}", question.agree));
  }
  context.err.print("{}: {}\n", context.err.name(overlay.base_path), question.why);
  bool agrees = WARREN_TRY(ask_yes(context, "Apply them?"));
  if (!agrees) context.err.line("nothing was written");
  return agrees;
}

}  // namespace

Result<bool> agrees_to_base(Context& context, const Arguments& args, const AgentOverlay& overlay) {
  if (WARREN_TRY(is_named(args, overlay))) {
    if (WARREN_TRY(find_doubt(overlay))) WARREN_TRY(agree_to_base(overlay));
    return true;
  }
  std::optional<ApplyQuestion> question = WARREN_TRY(find_base_question(args, overlay));
  if (!question) return true;
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written to {}: {}", quote(overlay.base_path), question->why),
                 fmt::format("if the changes belong there, add {}", question->agree));
  }
  context.err.print("{}\n", question->why);
  bool agrees =
      WARREN_TRY(ask_yes(context, fmt::format("Write its changes to {}?", context.err.name(overlay.base_path))));
  if (agrees) WARREN_TRY(agree_to_base(overlay));
  else context.err.line("nothing was written");
  return agrees;
}

Result<bool> agrees_to_programs(Context& context, const Arguments& args, const AgentOverlay& overlay,
                                const std::vector<TreeChange>& changes) {
  if (args.has("yes")) return true;
  if (is_home_directory(overlay.base_path)) return agrees_to_home(context, overlay, changes.size());
  std::optional<ProgramsQuestion> found = WARREN_TRY(find_programs_question(overlay, changes));
  if (!found) return true;
  const ApplyQuestion& question = found->question;
  for (const ApplyQuestion::File& file : question.files) {
    context.err.print("runs by itself: {}: {}\n", context.err.name(file.path), file.runs);
  }
  std::string advice = found->is_in_git
                           ? fmt::format("; `warren apply {} --as-branch NAME` writes nothing into .git but a branch",
                                         shell_word(args.get("ID")))
                           : "";
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written: {}", question.why),
                 fmt::format("look at the diff; then add {}, or name the other changes{}", question.agree, advice));
  }
  if (!advice.empty()) context.err.line(advice.substr(2));
  bool agrees = WARREN_TRY(ask_yes(context, "They may run the next time you work in the base. Apply them?"));
  if (!agrees) context.err.line("nothing was written");
  return agrees;
}

Result<std::vector<ApplyQuestion>> list_questions(const Arguments& args, const AgentOverlay& overlay,
                                                  const std::vector<TreeChange>& changes, AskAbout what) {
  std::vector<ApplyQuestion> all;
  if (std::optional<ApplyQuestion> base = WARREN_TRY(find_base_question(args, overlay)))
    all.push_back(*std::move(base));
  if (what == AskAbout::kBase || args.has("yes")) return all;
  if (is_home_directory(overlay.base_path)) {
    all.push_back(home_question(changes.size()));
    return all;
  }
  std::optional<ProgramsQuestion> programs = WARREN_TRY(find_programs_question(overlay, changes));
  if (programs) all.push_back(std::move(programs->question));
  return all;
}

std::optional<ApplyQuestion> find_unfinished_question(const Arguments& args, const std::optional<GitUnderWay>& git,
                                                      const std::vector<TreeChange>& changes) {
  if (!git || args.has("yes")) return std::nullopt;
  bool is_selected = args.has("interactive") || !args.all("PATH").empty();
  bool has_unmerged = std::any_of(changes.begin(), changes.end(), [&](const TreeChange& change) {
    return std::find(git->unmerged.begin(), git->unmerged.end(), change.path) != git->unmerged.end();
  });
  if (!has_unmerged && (is_selected || git->what.empty())) return std::nullopt;
  return ApplyQuestion{.about = "git", .why = describe_under_way(*git), .agree = "--yes", .files = {}};
}

Result<bool> agrees_to_unfinished(Context& context, const ApplyQuestion& question) {
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written: {}", question.why),
                 "let the agent finish or abort it; a PATH applies files that are not part of it; --yes writes "
                 "everything as it is, with conflict markers");
  }
  context.err.print("{}\n", context.err.name(question.why));
  bool agrees = WARREN_TRY(ask_yes(context, "Apply everything as it is, with conflict markers?"));
  if (!agrees) context.err.line("nothing was written");
  return agrees;
}

std::optional<ApplyQuestion> find_taken_back_question(const Arguments& args, const std::vector<TreeChange>& changes,
                                                      const WorkInDoubt& doubt) {
  constexpr std::size_t kNamed = 5;
  if (args.has("yes")) return std::nullopt;
  ApplyQuestion question{.about = "work", .why = {}, .agree = "--yes", .files = {}};
  std::unordered_set<std::string_view> in_doubt(doubt.paths.begin(), doubt.paths.end());
  std::vector<std::string> paths;
  for (const TreeChange& change : changes) {
    bool is_work = change.takes_back_work || in_doubt.contains(change.path);
    bool is_new = is_work && (paths.empty() || paths.back() != change.path);
    if (!is_new) continue;
    paths.push_back(change.path);
    question.files.push_back({.path = change.path, .runs = {}});
  }
  if (paths.empty()) return std::nullopt;
  std::string count = paths.size() == 1 ? "1 change" : fmt::format("{} changes", paths.size());
  std::string names = listed_names(paths, kNamed);
  question.why = fmt::format("{} would revert your uncommitted work to the session's last commit: {}", count, names);
  if (!doubt.paths.empty()) {
    question.why =
        fmt::format("{} may revert your uncommitted work: {}; that cannot be known: {}", count, names, doubt.why);
  }
  return question;
}

Result<bool> agrees_to_taken_back(Context& context, const ApplyQuestion& question) {
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written: {}", question.why),
                 "`warren discard ID PATH` drops such a change; --exclude leaves it out; --commits brings only the "
                 "commits; --yes overwrites your work, and `warren undo` restores it");
  }
  context.err.print("{}\n", context.err.name(question.why));
  bool agrees = WARREN_TRY(ask_yes(context, "Overwrite your uncommitted work with the committed version?"));
  if (!agrees) context.err.line("nothing was written");
  return agrees;
}

std::string undo_command(const Arguments& args) {
  const std::string& id = args.get("ID");
  if (std::optional<std::string> project = args.find("project")) {
    return fmt::format("warren home undo --project {}", quote(*project));
  }
  Result<std::string> layer = home_layer_file(HomeLayerScope::kShared, "");
  if (layer.ok() && *layer == id) return "warren home undo";
  return fmt::format("warren undo {}", id);
}

}  // namespace warren::cli
