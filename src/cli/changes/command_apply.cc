// apply: writes an agent's changes to its base, or elsewhere.
#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include <fcntl.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "changes/apply/apply.h"
#include "changes/apply/permission.h"
#include "changes/commits/branch.h"
#include "changes/conflicts.h"
#include "changes/filter.h"
#include "changes/git/git_folder.h"
#include "changes/needs.h"
#include "changes/pinned/merged_work.h"
#include "changes/review/patch.h"
#include "changes/review/remarks.h"
#include "changes/review/review.h"
#include "changes/selection.h"
#include "cli/changes/apply_commits.h"
#include "cli/changes/apply_conflicts.h"
#include "cli/changes/apply_consent.h"
#include "cli/changes/apply_dialog.h"
#include "cli/changes/apply_state.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/command_review.h"
#include "cli/changes/diff_overview.h"
#include "cli/changes/review_dialog.h"
#include "cli/changes/session_here.h"
#include "cli/changes/tidy_session.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"
#include "os/terminal.h"
#include "session/finished_session.h"

namespace warren::cli {
namespace {

constexpr int kListTries = 5;
constexpr const char* kOnScreen = "on-screen";  // the mark of `warren review`, which is `apply -i` on a full screen

std::string review_title(const Arguments& args) { return fmt::format("review {}", args.get("ID")); }

Json changes_json(const std::vector<TreeChange>& changes) {
  Json list = Json::array();
  for (const TreeChange& change : changes) {
    Json item;
    item["change"] = change_word(change.kind);
    set_bytes(item, "path", change.path);
    if (change.kind == TreeChangeKind::kRenamed) set_bytes(item, "from", change.base_path);
    list.push_back(std::move(item));
  }
  return list;
}

// A busy agent may have thousands of temporary files.
void print_applied(Context& context, const Arguments& args, const AgentOverlay& overlay,
                   const std::vector<TreeChange>& changes, const MergedContents& contents, const ApplyReport& report,
                   const std::vector<ApplyQuestion>& questions, const CommitsPlan* commits) {
  Output& out = context.out;
  bool is_dry_run = args.has("dry-run");
  if (args.has("json")) {
    Json merged = Json::array();
    for (const auto& [path, content] : contents) merged.push_back(printable(path));
    Json left_out = Json::array();
    for (const std::string& path : report.left_out) left_out.push_back(printable(path));
    Json json{{"applied", changes_json(changes)},
              {"conflicts", Json::array()},
              {"merged", merged},
              {"left_out", left_out},
              {"notes", report.notes},
              {"can_be_undone", report.can_be_undone},
              {"state", state_of_apply(changes, commits)},
              {"dry_run", is_dry_run}};
    if (is_dry_run) json["asks"] = questions_json(questions);
    if (commits != nullptr) json["commits"] = commits_json(*commits);
    set_bytes(json, "base", overlay.base_path);
    out.json(json);
    return;
  }
  if (is_dry_run) {
    print_past_overview(out, changes, Fold::kYes);
    print_questions(out, questions);
  }
  for (const auto& [path, content] : contents) {
    bool is_said = args.has("interactive") || content.has_markers;
    if (!is_said) out.print("merged: {}\n", out.name(path));
  }
  for (const std::string& note : report.notes) context.err.line(context.err.name(note));
  print_changed_since(context.err, report.changed_since);
  print_vanished(context.err, report.left_out);
  if (commits != nullptr) print_commits(context, args, *commits);
  if (commits != nullptr && changes.empty()) return;
  out.print("{} {}: {}\n", is_dry_run ? "would apply to" : "applied to", out.name(overlay.base_path),
            summary_text(summarise(changes)));
  if (report.can_be_undone) out.print("  {}   restores what was replaced\n", out.name(undo_command(args)));
}

Result<Exit> write_patch_file(Context& context, const std::string& file, const AgentOverlay& overlay,
                              std::vector<TreeChange>& changes) {
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));  // one for all files
  std::vector<std::string> left_out = WARREN_TRY(leave_out_vanished(overlay, {}, changes));
  print_vanished(context.err, left_out);
  if (file == "-") {
    WARREN_TRY(write_patch(overlay, changes, [&](std::string_view text) {
      context.out.text(text);
      return context.out.status();
    }));
    return Exit::kOk;
  }
  std::string whole;
  WARREN_TRY(write_patch(overlay, changes, [&](std::string_view text) -> Status {
    whole += text;
    return Ok{};
  }));
  WARREN_TRY(replace_host_file(file, whole, 0644));
  return Exit::kOk;
}

Result<bool> is_empty_dir(const std::string& path) {
  Fd dir = WARREN_TRY(open_host_dir(path));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  return entries.empty();
}

// --to knows no conflicts and keeps nothing for undo, so it must not write to what is in the base.
Status check_is_elsewhere(const std::string& dir, const std::string& base) {
  Result<std::string> there = canonical_host_path(dir);
  if (!there.ok() && there.error().code() == Code::kNotFound) return Ok{};  // it will be made, and is empty
  std::string whole = WARREN_TRY(std::move(there).within("--to"));
  std::string top = WARREN_TRY(canonical_host_path(base));
  if (whole == top) return Error(Code::kInvalid, fmt::format("{} is the base", quote(dir)), "leave --to out");
  std::string_view how = is_at_or_below(top, whole) ? "contains" : is_at_or_below(whole, top) ? "is in" : "";
  if (how.empty()) return Ok{};
  bool is_in = how == "is in";
  if (is_in && WARREN_TRY(is_empty_dir(whole))) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} {} the base {}", quote(dir), how, quote(base)),
               is_in ? "write to an empty directory, or to one outside of the base" : "write to another directory");
}

Result<Exit> write_elsewhere(Context& context, const Arguments& args, const AgentOverlay& overlay,
                             std::vector<TreeChange>& changes, PrivilegedPaths privileged) {
  if (auto file = args.find("as-patch")) {
    context.out.hold();  // the session's log grows as long as the transaction lasts
    Result<Exit> done = write_patch_file(context, *file, overlay, changes);
    WARREN_TRY(context.out.release());
    return done;
  }
  if (auto branch = args.find("as-branch")) {
    if (!WARREN_TRY(agrees_to_base(context, args, overlay))) return Exit::kFailed;
    auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
    std::vector<std::string> left_out = WARREN_TRY(leave_out_vanished(overlay, {}, changes));
    print_vanished(context.err, left_out);
    std::string commit = WARREN_TRY(commit_to_branch(overlay, changes, *branch, args.find("message").value_or("")));
    context.out.print("branch {}: {}\n", context.out.name(*branch), commit);
    return Exit::kOk;
  }
  WARREN_TRY(check_is_elsewhere(args.get("to"), overlay.base_path));
  std::vector<std::string> notes =
      WARREN_TRY(write_changes_to(overlay, changes, args.get("to"), std::move(privileged)));
  for (const std::string& note : notes) context.err.line(context.err.name(note));
  context.out.print("written to {}: {}\n", context.out.name(args.get("to")), summary_text(summarise(changes)));
  return Exit::kOk;
}

// Nothing was written: the changes are not those that --if-state is about.
Exit refuse_state(Context& context, const Arguments& args, const std::string& state) {
  if (args.has("json")) {
    context.out.json({{"applied", Json::array()}, {"conflicts", Json::array()}, {"state", state}});
  }
  context.err.line(fmt::format("{} the changes are not in the state of --if-state: nothing was written",
                               context.err.paint(Ink::kRed, "warren:")));
  context.err.line("hint: look at them with --dry-run --json, which prints their state");
  return Exit::kFailed;
}

// How an error begins: branches that were brought before stay also if the files are refused.
std::string describe_written(const CommitsPlan* commits) {
  if (commits == nullptr || commits->written.empty()) return "nothing was written";
  std::vector<std::string> names;
  for (const std::string& branch : commits->written) names.push_back(quote(branch));
  bool is_one = names.size() == 1;
  return fmt::format("the branch{} {} {} written, but no file was", is_one ? "" : "es", fmt::join(names, " and "),
                     is_one ? "was" : "were");
}

// The branches first: an apply that finds them again goes on with the files. Not if these are certain to be refused.
Result<ApplyReport> write_all(const Arguments& args, OverlayAgent& opened, std::vector<TreeChange>& changes,
                              ApplyOptions& options, CommitsPlan* commits) {
  if (commits != nullptr) {
    WARREN_TRY(check_not_refused(opened.overlay, changes, options).within(options.unwritten));
    Status brought = bring_commits(args, opened.overlay, *commits);
    if (!brought.ok()) return std::move(brought).take_error().within(describe_written(commits));
  }
  if (changes.empty()) return ApplyReport();
  options.unwritten = describe_written(commits);
  return apply_changes(*opened.agent, changes, options);
}

// What must be asked before something is written, apart from conflicts.
struct Consent {
  bool asks_for_files = true;  // false: the user has agreed to each of them
  std::optional<ApplyQuestion> unfinished;
  std::optional<ApplyQuestion> taken_back;
};

Consent consent_about(const Arguments& args, const std::optional<GitUnderWay>& git,
                      const std::vector<TreeChange>& changes, const WorkInDoubt& doubt) {
  Consent consent;
  consent.asks_for_files = !args.has("interactive") || args.has(kOnScreen);
  consent.unfinished = find_unfinished_question(args, git, changes);
  bool asks_for_work = consent.asks_for_files || !doubt.paths.empty();  // the dialog does not mark what is in doubt
  if (asks_for_work) consent.taken_back = find_taken_back_question(args, changes, doubt);
  return consent;
}

Result<bool> agrees_to_target(Context& context, const Arguments& args, const AgentOverlay& overlay,
                              const Consent& consent) {
  if (!WARREN_TRY(agrees_to_base(context, args, overlay))) return false;
  return consent.unfinished ? agrees_to_unfinished(context, *consent.unfinished) : Result<bool>(true);
}

Result<bool> agrees_to_changes(Context& context, const Arguments& args, const AgentOverlay& overlay,
                               const std::vector<TreeChange>& changes, const CommitsPlan* commits,
                               const Consent& consent) {
  if (consent.taken_back && !WARREN_TRY(agrees_to_taken_back(context, *consent.taken_back))) return false;
  bool asks_for_files = consent.asks_for_files && !changes.empty();
  if (asks_for_files && !WARREN_TRY(agrees_to_programs(context, args, overlay, changes))) return false;
  return commits != nullptr ? agrees_to_foreign(context, args, *commits) : Result<bool>(true);
}

Result<Exit> apply_chosen(Context& context, const Arguments& args, OverlayAgent& opened,
                          std::vector<TreeChange> changes, ApplyOptions options, CommitsPlan* commits,
                          const Consent& consent) {
  if (std::string state = state_of_apply(changes, commits); !is_wanted_state(args, state)) {
    return refuse_state(context, args, state);
  }
  bool asks = args.has("interactive");
  bool has_any = !changes.empty() || (commits != nullptr && commits->writes_branches());
  bool writes = has_any && !args.has("dry-run");
  bool asks_now = writes && !args.has(kOnScreen);
  std::vector<ApplyQuestion> questions;
  if (has_any && args.has("dry-run")) {
    questions =
        WARREN_TRY(list_questions(args, opened.overlay, changes, asks ? AskAbout::kBase : AskAbout::kBaseAndPrograms));
    if (consent.unfinished) questions.push_back(*consent.unfinished);
    if (consent.taken_back) questions.push_back(*consent.taken_back);
    if (commits != nullptr) add_foreign_question(args, *commits, questions);
  }
  if (asks_now && !WARREN_TRY(agrees_to_target(context, args, opened.overlay, consent))) return Exit::kFailed;
  if (!args.has("force") && !asks) {
    ResolvedConflicts conflicts = WARREN_TRY(resolve_conflicts(args, opened.overlay, changes, options.contents));
    if (!conflicts.left.empty()) {
      bool has_commits = commits != nullptr && commits->writes_branches();
      print_conflicts(context, args, conflicts.left, questions, has_commits ? HasCommits::kYes : HasCommits::kNo);
      return Exit::kFailed;
    }
  }
  if (asks_now && !WARREN_TRY(agrees_to_changes(context, args, opened.overlay, changes, commits, consent)))
    return Exit::kFailed;
  if (asks) WARREN_TRY(check_as_listed(opened.overlay, changes));
  ApplyReport report;
  if (!args.has("dry-run")) report = WARREN_TRY(write_all(args, opened, changes, options, commits));
  else if (!changes.empty()) WARREN_TRY(rehearse_apply(opened.overlay, changes, options));
  print_applied(context, args, opened.overlay, changes, options.contents, report, questions, commits);
  if (!args.has("dry-run")) WARREN_TRY(keep_session(args));
  Exit exit = Exit::kOk;
  for (const auto& [path, content] : options.contents) {
    if (!content.has_markers) continue;
    context.err.print("conflict markers: {}: edit it, and keep what is right\n", context.err.name(path));
    exit = Exit::kFailed;
  }
  return exit;
}

// Only an apply that writes to the base acts on an interrupted one.
Result<RecoveredAgent> open_for_apply(Context& context, const std::string& id, Use use) {
  if (use == Use::kRead) {
    OverlayAgent opened = WARREN_TRY(open_overlay(id, OpenMode::kReadOnly, context.clock));
    WARREN_TRY(refuse_interrupted(*opened.agent, id));
    return RecoveredAgent{std::move(opened), std::nullopt, {}};
  }
  settle_merged(id, context.clock).ignore("it is tried again when the session runs");
  RecoveredAgent recovered = WARREN_TRY(open_and_recover(id, context.clock));
  for (const UndoRecovery& undo : recovered.undos) print_recovery(context.err, undo);
  if (recovered.recovery) print_recovery(context.err, *recovered.recovery);
  return recovered;
}

// The status says whether what was interrupted is finished now; or nothing was interrupted at all.
Exit end_recovery(Context& context, const RecoveredAgent& recovered) {
  bool is_nothing = !recovered.recovery && recovered.undos.empty();
  if (is_nothing) context.out.line("no apply of this agent was interrupted");
  bool is_finished = !recovered.recovery || recovered.recovery->is_finished;
  for (const UndoRecovery& undo : recovered.undos) is_finished = is_finished && undo.is_finished;
  return is_finished ? Exit::kOk : Exit::kFailed;
}

// Each must be the path of a change: a misspelled one would silently grant nothing.
Result<PrivilegedPaths> list_privileged(const Arguments& args, const std::vector<TreeChange>& changes) {
  PrivilegedPaths paths;
  if (!args.has("privileged")) return paths;
  for (const std::string& given : args.all("privileged")) {
    std::string path = WARREN_TRY(normalise_path(given).within("--privileged"));
    bool is_known = std::any_of(changes.begin(), changes.end(),
                                [&](const TreeChange& change) { return change.path == path && change.after; });
    if (!is_known) return Error(Code::kNotFound, fmt::format("--privileged: {} is not a change", quote(given)));
    paths.insert(std::move(path));
  }
  return paths;
}

Result<UndoLimits> undo_limits(const Arguments& args) {
  UndoLimits limits;
  if (std::optional<std::uint64_t> bytes = args.find_size("undo-size")) limits.bytes_max = *bytes;
  if (std::optional<std::string> time = args.find("undo-time")) {
    std::chrono::milliseconds duration = WARREN_TRY(parse_duration(*time));
    limits.seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  }
  return limits;
}

// Removes what apply leaves out by itself, and says so.
std::vector<TreeChange> without_left_out(Context& context, std::vector<TreeChange> changes,
                                         const PrivilegedPaths& privileged) {
  for (const std::string& note : leave_out_devices(changes, privileged)) context.err.line(context.err.name(note));
  return changes;
}

// nullopt if the options can be used together.
std::optional<std::string_view> find_misuse(const Arguments& args, int targets) {
  if (targets > 1) return "--to, --as-patch and --as-branch cannot be used together";
  if (targets == 1 && (args.has("merge") || args.has("conflict") || args.has("interactive") || args.has("dry-run")))
    return "--merge, --conflict, --interactive and --dry-run cannot be used with --to, --as-patch or --as-branch";
  if (args.has("message") && !args.has("as-branch")) return "--message needs --as-branch";
  if (args.has("if-state") && (targets > 0 || args.has("interactive") || args.has("recover")))
    return "--if-state cannot be used with --interactive, --recover, --to, --as-patch or --as-branch";
  if ((args.has("merge") || args.has("conflict")) && args.has("force"))
    return "--merge and --conflict cannot be used with --force";
  if (args.has("interactive") && (args.has("json") || args.has("force") || args.has("merge") || args.has("conflict")))
    return "--interactive cannot be used with --json, --force, --merge or --conflict";
  bool asks_for_more = targets > 0 || args.has("merge") || args.has("conflict") || args.has("force") ||
                       args.has("interactive") || args.has("dry-run") || args.has("privileged") ||
                       !args.all("PATH").empty();
  if (args.has("recover") && asks_for_more) return "--recover cannot be used with PATH or other options";
  return std::nullopt;
}

void leave_excluded(Context& context, const Arguments& args, const std::vector<TreeChange>& all, Selection& chosen) {
  if (!args.has("exclude")) return;
  for (const Needs::Dependent& one : leave_with_excluded(all, filter_of({}, excluded_of(args)), chosen)) {
    std::string why = "one of its two names is excluded";
    if (one.change != one.because)
      why = fmt::format("not possible without {}, which is excluded", context.err.name(change_line(all[one.because])));
    context.err.print("left: {}: {}\n", context.err.name(change_line(all[one.change])), why);
  }
}

// The changes that the user wants, and those that they need. nullopt if the user quits the dialog.
Result<std::optional<std::vector<TreeChange>>> choose(Context& context, const Arguments& args,
                                                      const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                                                      const ChangeFilter& filter, CommitsPlan* commits,
                                                      const ReviewConsent& agrees, ReviewState& state,
                                                      ApplyOptions& options) {
  Selection offered(all);
  if (commits != nullptr) take_files(*commits, all, filter, offered);
  else offered.take_if(filter);
  leave_excluded(context, args, all, offered);
  Selection chosen = args.has("interactive") ? Selection(all) : offered;
  if (args.has("interactive")) {
    Result<bool> answer = args.has(kOnScreen) ? review_changes(context, review_title(args), overlay, all, offered,
                                                               agrees, state, chosen, options)
                                              : choose_changes(context, overlay, all, offered, chosen, options);
    bool is_confirmed = WARREN_TRY(std::move(answer));
    if (!is_confirmed) return std::optional<std::vector<TreeChange>>();
  }
  chosen.complete_for_apply();
  return std::optional(without_left_out(context, chosen.list(), options.privileged));
}

// What is in .git is only among the changes if a PATH names it.
Status check_named(const AgentOverlay& overlay, const std::vector<TreeChange>& all, const ChangeFilter& filter) {
  Selection named(all);
  named.take_if(filter);
  named.complete_for_apply();
  return check_git_files(overlay, named.list());
}

// After its changes were listed.
bool has_just_committed(const Result<std::optional<CommitsPlan>>& planned) {
  return !planned.ok() && planned.error().code() == Code::kStale;
}

Result<Exit> apply_selected(Context& context, const Arguments& args, OverlayAgent& opened, int targets,
                            ReviewState& state) {
  std::vector<TreeChange> all = WARREN_TRY(list_changes(opened.overlay));
  Result<std::optional<CommitsPlan>> planned = plan_commits(args, opened, all);
  for (int tries = 1; has_just_committed(planned) && tries < kListTries; ++tries) {
    all = WARREN_TRY(list_changes(opened.overlay));
    planned = plan_commits(args, opened, all);
  }
  std::optional<CommitsPlan> commits = WARREN_TRY(std::move(planned));
  WorkInDoubt doubt;
  if (!commits && targets == 0) doubt = mark_taken_back(opened.overlay, all);
  std::optional<GitUnderWay> git = WARREN_TRY(find_git_under_way(opened.overlay, all));
  std::vector<std::string> paths = WARREN_TRY(paths_of(args, opened.overlay));
  print_left_out_folders(context.err, leave_out_agent_folders(all, paths));
  std::vector<TreeChange> in_git = WARREN_TRY(leave_out_git(opened.overlay, all, paths));
  WARREN_TRY(print_left_out_git(context, opened.overlay, in_git));
  if (!state.refusal) WARREN_TRY(check_patterns(paths, all));  // else they matched before, and the agent goes on
  ApplyOptions options;
  options.named = names_in(paths);
  paths = with_exact_names(std::move(paths), all);
  if (targets == 0) WARREN_TRY(check_named(opened.overlay, all, filter_of(paths, excluded_of(args))));
  options.privileged = WARREN_TRY(list_privileged(args, all));
  options.undo = WARREN_TRY(undo_limits(args));
  options.label = args.get("ID");
  options.may_have_conflicts = args.has("force") || args.has("interactive");
  CommitsPlan* plan = commits ? &*commits : nullptr;
  if (plan != nullptr) plan->is_rebasing = git && git->is_rebase;
  if (plan != nullptr) WARREN_TRY(compare_with_commits(args, opened.overlay, *plan, all));
  auto consent_to = [&](std::vector<TreeChange>& chosen) -> Result<Consent> {
    if (plan != nullptr) doubt = WARREN_TRY(mark_taken_back(opened.overlay, *plan, chosen));
    return consent_about(args, git, chosen, doubt);
  };
  auto agrees = [&](Selection taken) -> Result<bool> {
    taken.complete_for_apply();
    std::vector<TreeChange> chosen = taken.list();
    Consent consent = WARREN_TRY(consent_to(chosen));
    if (!WARREN_TRY(agrees_to_target(context, args, opened.overlay, consent))) return false;
    return agrees_to_changes(context, args, opened.overlay, chosen, plan, consent);
  };
  std::optional<std::vector<TreeChange>> changes = WARREN_TRY(
      choose(context, args, opened.overlay, all, filter_of(paths, excluded_of(args)), plan, agrees, state, options));
  if (!changes) return Exit::kFailed;
  Consent consent = WARREN_TRY(consent_to(*changes));
  if (git && (targets == 1 || args.has("yes"))) context.err.line(context.err.name(describe_under_way(*git)));
  if (targets == 1) return write_elsewhere(context, args, opened.overlay, *changes, options.privileged);
  return apply_chosen(context, args, opened, *std::move(changes), std::move(options), plan, consent);
}

Result<Exit> run_apply(Context& context, const Arguments& given) {
  Arguments args = WARREN_TRY(with_session_and_paths(given, context.clock));
  int targets = (args.has("to") ? 1 : 0) + (args.has("as-patch") ? 1 : 0) + (args.has("as-branch") ? 1 : 0);
  if (std::optional<std::string_view> misuse = find_misuse(args, targets)) return refuse(context, *misuse);
  if (std::optional<std::string_view> misuse = find_commit_misuse(args, targets)) return refuse(context, *misuse);
  if (args.has("interactive") && !is_terminal(context.input))
    return Error(Code::kInvalid, "--interactive needs standard input to be a terminal");
  bool changes_agent = targets == 0 && !args.has("dry-run");
  Exit exit = Exit::kOk;
  {
    RecoveredAgent recovered =
        WARREN_TRY(open_for_apply(context, args.get("ID"), changes_agent ? Use::kWrite : Use::kRead));
    if (args.has("recover")) {
      Exit ended = end_recovery(context, recovered);
      WARREN_TRY(keep_session(args));
      return ended;
    }
    ReviewState unused;
    exit = WARREN_TRY(apply_selected(context, args, recovered.opened, targets, unused));
  }
  if (exit == Exit::kOk && changes_agent) tidy_session(context, args);
  return exit;
}

std::vector<Option> apply_options() {
  std::vector<Option> all{
      {.name = "dry-run", .letter = 'n', .help = "show what would be done, any conflicts, and what would be asked"},
      {.name = "force",
       .help =
           "take the agent's version where the base has changed too; with --commits, write no files, and replace the "
           "branch even if it has commits of others"},
      {.name = "merge", .help = "merge text files where the base has changed too"},
      conflict_option(),
      {.name = "interactive",
       .letter = 'i',
       .help = "ask about each change, or each part of a file, also of one in conflict"},
      {.name = "yes",
       .letter = 'y',
       .help = "also apply files that run by themselves, such as git hooks, commits with work of others, what takes "
               "back your "
               "uncommitted work, and the files of an unfinished merge or rebase"},
      {.name = "trust-base",
       .value = "DIR",
       .help = "agree that the agent's base is DIR; needed once for an agent file from elsewhere",
       .suggest = Suggest::kHostDirs},
      {.name = "privileged",
       .value = "PATH",
       .help = "also write the set-user-id bits, privileged attributes or device node at PATH",
       .kind = ValueKind::kNotEmpty,
       .is_list = true},
      {.name = "undo-size",
       .value = "SIZE",
       .help = "keep at most SIZE of what applies replaced; 0 keeps nothing [default: 1G]",
       .kind = ValueKind::kSize},
      {.name = "undo-time",
       .value = "TIME",
       .help = "keep what this apply replaces for TIME [default: 30d]",
       .kind = ValueKind::kDuration},
      keep_option(),
      if_state_option(),
      {.name = "recover", .help = "only finish or undo an interrupted apply; exit with 1 if it was undone"},
      exclude_option(),
      {.name = "to",
       .value = "DIR",
       .help = "write to this directory instead",
       .kind = ValueKind::kNotEmpty,
       .suggest = Suggest::kHostDirs},
      {.name = "as-patch",
       .value = "FILE",
       .help = "write a patch instead (- for standard output)",
       .kind = ValueKind::kNotEmpty,
       .suggest = Suggest::kHostFiles},
      {.name = "as-branch", .value = "NAME", .help = "commit to a new branch of the base's git repository instead"},
      {.name = "message", .letter = 'm', .value = "TEXT", .help = "with --as-branch: the commit's message"},
      json_option()};
  std::vector<Option> commits = commit_options();
  all.insert(all.begin(), commits.begin(), commits.end());
  return all;
}

Result<Exit> review_once(Context& context, const Arguments& args, ReviewState& state) {
  RecoveredAgent recovered = WARREN_TRY(open_for_apply(context, args.get("ID"), Use::kWrite));
  if (!state.refusal) {
    std::vector<TreeChange> changes = WARREN_TRY(list_changes(recovered.opened.overlay));
    std::vector<TreeChange> in_git = WARREN_TRY(leave_out_git(recovered.opened.overlay, changes, {}));
    print_new_commits(context, recovered.opened.overlay, changes, in_git);
  }
  return apply_selected(context, args, recovered.opened, 0, state);
}

// Whether something is not as it was listed, and nothing was written: the user can look at it, and leave it.
bool is_outdated(const Error& error) {
  constexpr std::array kCodes{Code::kConflict, Code::kExists, Code::kNotFound, Code::kNotDirectory, Code::kIsDirectory};
  bool is_about_files = std::ranges::find(kCodes, error.code()) != kCodes.end();
  return is_about_files && error.message().starts_with(ApplyOptions().unwritten);
}

}  // namespace

Result<Exit> run_review(Context& context, const Arguments& given) {
  if (!is_terminal(context.input) || !context.out.is_terminal()) {
    return Error(Code::kInvalid, "review needs a terminal for input and output",
                 "`warren diff` shows the changes, `warren apply` writes them");
  }
  Arguments args = WARREN_TRY(with_session_and_paths(given, context.clock));
  args.add("interactive", "");
  args.add(kOnScreen, "");
  ReviewState state;
  Result<Exit> done = review_once(context, args, state);
  // A refusal that is still there was not shown: then the review did not begin again.
  while (!done.ok() && !state.refusal && !state.taken.empty() && is_outdated(done.error())) {
    state.refusal = done.error();
    done = review_once(context, args, state);
  }
  if (!done.ok() && state.refusal) print_error(context, *state.refusal);
  if (done.ok() && *done == Exit::kOk) tidy_session(context, args);
  return done;
}

Command make_apply() {
  return {
      .name = "apply",
      .summary = "Write an agent's changes to its base",
      .details =
          "Applies everything or nothing: before anything is written, each file concerned must still be what the "
          "agent saw, and after a crash the next apply finishes or undoes it. What you change in the base meanwhile is "
          "kept, and named if the apply had to be undone around it. Applied changes are no "
          "longer listed as changes of the agent. Changes that selected ones depend on are included: a new directory "
          "above a new file, everything below a deleted directory. If there are conflicts the exit status is 1. What "
          "is replaced or removed is kept for `warren undo`. In a git repository, what the agent has committed is "
          "brought "
          "by git as the branch warren/ID, and only the rest is written as files; of .git only hooks and settings are "
          "written, if a PATH names them.",
      .positionals = {optional_id_argument(), changed_path_argument()},
      .options = apply_options(),
      .subcommands = {},
      .handler = run_apply};
}

}  // namespace warren::cli
