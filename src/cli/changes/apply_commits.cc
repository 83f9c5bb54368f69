#include "cli/changes/apply_commits.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "changes/commits/left_in_git.h"
#include "changes/commits/stray_commits.h"
#include "changes/filter.h"
#include "changes/git/git_folder.h"
#include "changes/left_out.h"
#include "changes/pinned/git_under_way.h"
#include "changes/review/remarks.h"
#include "cli/changes/apply_consent.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/merge_advice.h"
#include "cli/changes/merged_branches.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

constexpr std::size_t kShortId = 10;
constexpr std::size_t kPathsShown = 5;

std::string counted(std::uint64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string listed(const std::vector<std::string>& names) { return listed_names(names, kPathsShown); }

// The branch that --from names, or the first with new commits.
Result<std::optional<AgentBranch>> choose_branch(const Arguments& args, const AgentCommits& found) {
  std::optional<std::string> from = args.find("from");
  for (const AgentBranch& one : found.brings) {
    if (!from || one.name == *from) return std::optional(one);
  }
  if (!from) return std::optional<AgentBranch>();
  std::vector<std::string> names;
  for (const AgentBranch& one : found.brings) names.push_back(one.name.empty() ? "HEAD" : one.name);
  return Error(Code::kNotFound, fmt::format("no new commits on the agent's branch {}", quote(*from)),
               names.empty() ? "" : "new commits are on: " + listed(names));
}

// Bringing a branch writes no files. Merging it does, and runs what is a hook by then.
void print_self_running(Output& out, const CommitsPlan& plan) {
  for (std::size_t i = 0; i < plan.self_running.size() && i < kPathsShown; ++i) {
    const SelfRunningFile& file = plan.self_running[i];
    out.print("  runs by itself, once it is merged: {}: {}\n", out.name(file.path), file.runs);
  }
  if (plan.self_running.size() > kPathsShown)
    out.print("  and {} more files that run by themselves\n", plan.self_running.size() - kPathsShown);
}

// The commits that the branch has so far, and loses.
void print_replaced(Output& out, const Arguments& args, const CommitsPlan& plan) {
  std::string what;
  if (plan.is_replacing) what = "commits that the agent has amended or rebased since";
  if (plan.replaced_others > 0)
    what = fmt::format("{} that the agent's branch does not have", counted(plan.replaced_others, "commit"));
  if (what.empty()) return;
  out.print("  in place of {}: `git log {}{}` shows them\n", what, out.name(shell_word(plan.branch)),
            args.has("dry-run") ? "" : "@{1}");
}

// Whether they are brought only if the user agrees.
bool is_suspicious(const CommitImport::Beyond& beyond) {
  return !beyond.foreign.empty() || !beyond.reverted.empty() || !beyond.untracked.empty() || !beyond.stashed.empty();
}

bool is_notable(const CommitImport::Beyond& beyond) { return is_suspicious(beyond) || !beyond.uncommitted.empty(); }

// What the commits have that the session did not change, and what they take back.
std::string describe_foreign(const CommitImport::Beyond& beyond) {
  std::string text;
  if (!beyond.foreign.empty()) {
    text = fmt::format("{} in the commits {} of this session: {}; the base changed while the agent committed",
                       counted(beyond.foreign.size(), "file"),
                       beyond.foreign.size() == 1 ? "is not a change" : "are not changes", listed(beyond.foreign));
  }
  if (!beyond.reverted.empty()) {
    text += fmt::format("{}the commits revert newer work by others in {}: {}", text.empty() ? "" : "; ",
                        counted(beyond.reverted.size(), "file"), listed(beyond.reverted));
  }
  if (!beyond.uncommitted.empty()) {
    text += fmt::format("{}the commits contain your uncommitted work: {}", text.empty() ? "" : "; ",
                        listed(beyond.uncommitted));
  }
  if (!beyond.untracked.empty())
    text += fmt::format("; pushing the branch would publish files that you do not track: {}", listed(beyond.untracked));
  if (!beyond.stashed.empty()) {
    text += fmt::format("{}the commits contain what only a stash of yours has: {}", text.empty() ? "" : "; ",
                        listed(beyond.stashed));
  }
  return text + ": look at that before you merge";
}

// --force alone is about files: whoever wants the agent's version of a file has not agreed to lose commits.
ReplaceBranch replaces_branch(const Arguments& args) {
  return args.has("commits") && args.has("force") ? ReplaceBranch::kYes : ReplaceBranch::kNo;
}

Status check_target(const Arguments& args, CommitsPlan& plan, const std::string& id) {
  plan.branch = args.find("branch").value_or("warren/" + id);
  CommitImport::BranchState state = WARREN_TRY(plan.import->look_at_branch(plan.branch));
  plan.is_replacing = state == CommitImport::BranchState::kOwn;
  if (state != CommitImport::BranchState::kOther) return Ok{};
  if (replaces_branch(args) == ReplaceBranch::kYes) {
    plan.replaced_others = WARREN_TRY(plan.import->count_others(plan.branch));
    return Ok{};
  }
  return Error(Code::kExists,
               fmt::format("nothing was written: the branch {} has commits that are not in the agent's branch",
                           quote(plan.branch)),
               kTakeOtherBranch);
}

Status prepare_import(CommitsPlan& plan, OverlayAgent& opened, const std::vector<TreeChange>& all) {
  const std::string& commit = plan.taken ? plan.taken->commit : plan.found.head;
  plan.import = WARREN_TRY(CommitImport::prepare(opened.overlay, plan.found, commit, all));
  return plan.import->set_writer(*opened.agent);
}

// A branch whose commits all come with the one that is taken has nothing more to bring.
Status leave_out_contained(CommitsPlan& plan) {
  std::vector<AgentBranch> others;
  for (AgentBranch& one : plan.found.brings) {
    bool is_contained = one.commit != plan.taken->commit && WARREN_TRY(plan.import->contains(one.commit));
    if (!is_contained) others.push_back(std::move(one));
  }
  plan.found.brings = std::move(others);
  return Ok{};
}

// A branch comes with all that is in it. Whoever excludes a file, a secret perhaps, is to know that.
Status find_excluded(const Arguments& args, CommitsPlan& plan) {
  if (!args.has("exclude")) return Ok{};
  ChangeFilter filter = filter_of({}, excluded_of(args));
  std::set<std::string> found;
  auto add = [&](CommitImport& import) -> Status {
    std::vector<std::string> brought = WARREN_TRY(import.list_brought());
    for (const std::string& name : brought) {
      if (!filter("/" + name)) found.insert("/" + name);
    }
    return Ok{};
  };
  if (plan.taken) WARREN_TRY(add(*plan.import));
  for (MergedBranch& other : plan.others) {
    if (other.is_brought) WARREN_TRY(add(*other.import));
  }
  plan.excluded.assign(found.begin(), found.end());
  return Ok{};
}

// HEAD's commits were brought before. Those of another branch do not go to the branch that has them.
Result<bool> is_only_named(const Arguments& args, const CommitsPlan& plan, const std::string& id) {
  if (!plan.taken || plan.taken->commit == plan.found.head || plan.found.head.empty()) return false;
  if (args.has("from") || args.has("branch")) return false;
  CommitImport::BranchState state = WARREN_TRY(plan.import->look_at_branch("warren/" + id));
  return state == CommitImport::BranchState::kOther || state == CommitImport::BranchState::kOwn;
}

// A remark of `diff`: the same question is asked by `apply`.
void print_foreign(Context& context, const AgentOverlay& overlay, const AgentCommits& found,
                   const std::vector<TreeChange>& changes, const std::vector<TreeChange>& left_out) {
  bool has_new = !found.brings.empty() && found.brings.front().commit == found.head;
  if (!has_new) return;
  auto import = CommitImport::prepare(overlay, found, found.head, left_out);
  Result<CommitImport::Beyond> beyond = import.ok() ? (*import)->look_beyond(changes) : std::move(import).take_error();
  if (!beyond.ok()) {
    context.err.print("cannot tell what the commits contain: {}\n", context.err.name(beyond.error().message()));
  } else if (is_notable(*beyond)) {
    context.err.print("{}\n", context.err.name(describe_foreign(*beyond)));
  }
}

struct ImportedHead {
  AgentCommits found;
  std::unique_ptr<CommitImport> import;  // nullptr if the agent has committed nothing
};

Error lost_head() { return Error(Code::kCorrupt, "the HEAD of the agent's repository names no commit any more"); }

// An error if it cannot be known what the agent has committed.
Result<ImportedHead> import_head(const AgentOverlay& overlay, const std::vector<TreeChange>& all) {
  ImportedHead head;
  if (has_git_of_base(overlay)) return head;
  std::optional<AgentCommits> found = WARREN_TRY(find_commits(overlay));
  bool has_head = found && !found->head.empty();
  if (!has_head && WARREN_TRY(has_lost_head(overlay))) return lost_head();
  if (!has_head) return head;
  head.import = WARREN_TRY(CommitImport::prepare(overlay, *found, found->head, all));
  head.found = *std::move(found);
  return head;
}

WorkInDoubt doubt_work(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, const Error& why) {
  return {.paths = list_work_in_doubt(overlay, changes), .why = why.message()};
}

void print_strays(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& left_out) {
  Result<StrayObjects> strays = find_stray_objects(overlay, left_out);
  if (!strays.ok()) {
    context.err.print("cannot tell whether commits are on no branch: {}\n", context.err.name(strays.error().message()));
    return;
  }
  if (strays->commits == 0) return;
  context.err.print("{} on no branch and {} only in the session; create a branch there to have {} applied\n",
                    strays->commits == 1 ? "1 commit is" : fmt::format("{} commits are", strays->commits),
                    strays->commits == 1 ? "exists" : "exist", strays->commits == 1 ? "it" : "them");
}

}  // namespace

std::vector<Option> commit_options() {
  return {{.name = "commits", .help = "bring only the agent's commits, as a branch, and write no files"},
          {.name = "no-commits", .help = "write everything as files, including what the agent has committed"},
          {.name = "ignored", .help = "also write files that git ignores, although the agent has committed"},
          {.name = "branch", .value = "NAME", .help = "the branch for the agent's commits [default: warren/ID]"},
          {.name = "from", .value = "BRANCH", .help = "with --commits: the agent's branch to bring [default: HEAD]"}};
}

std::optional<std::string_view> find_commit_misuse(const Arguments& args, int targets) {
  bool is_about_commits = args.has("commits") || args.has("branch");
  bool is_about_files = targets > 0 || args.has("interactive") || args.has("no-commits") || !args.all("PATH").empty();
  if (is_about_commits && is_about_files)
    return "--commits and --branch cannot be used with PATH, --no-commits, --interactive, --to, --as-patch or "
           "--as-branch";
  if (args.has("ignored") && args.has("commits"))
    return "--ignored cannot be used with --commits, which writes no files";
  if (args.has("from") && !args.has("commits")) return "--from needs --commits";
  if (args.has("recover") && (is_about_commits || args.has("no-commits")))
    return "--recover cannot be used with PATH or other options";
  return std::nullopt;
}

Result<std::optional<CommitsPlan>> plan_commits(const Arguments& args, OverlayAgent& opened,
                                                const std::vector<TreeChange>& all) {
  std::optional<CommitsPlan> none;
  bool is_about_files = args.has("to") || args.has("as-patch") || args.has("as-branch") || args.has("interactive") ||
                        args.has("no-commits") || !args.all("PATH").empty();
  if (is_about_files) return none;
  std::optional<AgentCommits> found = WARREN_TRY(find_commits(opened.overlay));
  bool is_empty = !found || (found->brings.empty() && args.has("commits") && !args.has("from"));
  if (is_empty && args.has("commits"))
    return Error(Code::kNotFound, "the agent has made no commits that the base's repository does not have");
  if (!found) return none;
  CommitsPlan plan;
  plan.taken = WARREN_TRY(choose_branch(args, *found));
  plan.found = *std::move(found);
  WARREN_TRY(prepare_import(plan, opened, all));
  if (WARREN_TRY(is_only_named(args, plan, opened.agent->id()))) {
    plan.taken.reset();
    WARREN_TRY(prepare_import(plan, opened, all));
  }
  if (plan.taken) {
    WARREN_TRY(leave_out_contained(plan));
    WARREN_TRY(check_target(args, plan, opened.agent->id()));
    plan.description = WARREN_TRY(plan.import->describe());
    plan.self_running = WARREN_TRY(plan.import->list_self_running());
  } else {
    plan.container = WARREN_TRY(plan.import->find_container());
  }
  if (!args.has("from")) WARREN_TRY(plan_merged_branches(plan, opened, all));
  WARREN_TRY(find_excluded(args, plan));
  return std::optional(std::move(plan));
}

void take_files(CommitsPlan& plan, const std::vector<TreeChange>& changes, const ChangeFilter& filter,
                Selection& chosen) {
  std::vector<bool> stays =
      find_left_out(changes, [&](const TreeChange& change) { return plan.ignored.contains(change.path); });
  for (std::size_t i = 0; i < plan.where.size(); ++i) {
    if (filter && !filter(changes[i].path)) continue;
    auto ignored = plan.ignored.find(changes[i].path);
    switch (plan.where[i]) {
      case CommitImport::Where::kFiles:
        if (!stays[i]) chosen.take(i);
        if (ignored == plan.ignored.end()) break;
        plan.staying.insert(ignored->second);
        plan.staying_files += changes[i].node().is_directory() ? 0 : 1;
        break;
      case CommitImport::Where::kCommits: plan.committed += changes[i].node().is_directory() ? 0 : 1; break;
      case CommitImport::Where::kBoth: plan.held.push_back(changes[i].path); break;
    }
  }
}

Status compare_with_commits(const Arguments& args, const AgentOverlay& overlay, CommitsPlan& plan,
                            std::vector<TreeChange>& changes) {
  plan.beyond = WARREN_TRY(plan.import->look_beyond(changes));
  CommitImport::Sorted sorted = WARREN_TRY(plan.import->sort(changes));
  plan.brought = std::move(sorted.brought);
  WARREN_TRY(compare_with_merged(plan, changes, sorted.where));
  if (args.has("commits")) return Ok{};
  plan.held = plan.beyond.taken_back;
  plan.where = std::move(sorted.where);
  if (!args.has("ignored")) plan.ignored = WARREN_TRY(find_ignored(overlay, changes, Rules::kAgent));
  return Ok{};
}

WorkInDoubt mark_taken_back(const AgentOverlay& overlay, std::vector<TreeChange>& all) {
  Result<ImportedHead> head = import_head(overlay, all);
  if (!head.ok()) return doubt_work(overlay, all, head.error());
  Status marked = head->import ? head->import->mark_taken_back(all) : Status(Ok{});
  return marked.ok() ? WorkInDoubt() : doubt_work(overlay, all, marked.error());
}

Result<WorkInDoubt> mark_taken_back(const AgentOverlay& overlay, CommitsPlan& plan, std::vector<TreeChange>& changes) {
  bool has_head = !plan.found.head.empty();
  if (!has_head && WARREN_TRY(has_lost_head(overlay))) return doubt_work(overlay, changes, lost_head());
  WARREN_TRY(plan.import->mark_taken_back(changes));
  return WorkInDoubt();
}

WorkInDoubt mark_by_commits(const AgentOverlay& overlay, std::vector<TreeChange>& all) {
  Result<ImportedHead> head = import_head(overlay, all);
  if (!head.ok()) return doubt_work(overlay, all, head.error());
  if (!head->import) return WorkInDoubt();
  constexpr const char* kWhy = "`apply` says what is wrong with the commits";
  Status marked = head->import->mark_taken_back(all);
  std::vector<TreeChange> sorted = all;  // sorting sets what the changes are compared with
  mark_sorted(*head->import, sorted).ignore(kWhy);
  mark_by_merged(overlay, head->found, *head->import, sorted).ignore(kWhy);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].is_in_commits = sorted[i].is_in_commits;
  return marked.ok() ? WorkInDoubt() : doubt_work(overlay, all, marked.error());
}

void print_work_in_doubt(Context& context, const WorkInDoubt& doubt) {
  if (doubt.paths.empty()) return;
  context.err.print("cannot tell whether changes revert your uncommitted work in {}: {}\n",
                    context.err.name(listed(doubt.paths)), context.err.name(doubt.why));
}

Result<bool> agrees_to_foreign(Context& context, const Arguments& args, const CommitsPlan& plan) {
  if (!plan.writes_branches() || !is_suspicious(plan.beyond) || args.has("yes")) return true;
  std::string why = describe_foreign(plan.beyond);
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written: {}", why),
                 "--commits --yes writes only the branch, where `git diff HEAD...BRANCH` shows them before you merge; "
                 "--no-commits applies the session's own changes as files");
  }
  context.err.print("{}\n", context.err.name(why));
  bool agrees = WARREN_TRY(ask_yes(context, "Bring the commits as they are?"));
  if (!agrees) context.err.line("nothing was written");
  return agrees;
}

void add_foreign_question(const Arguments& args, const CommitsPlan& plan, std::vector<ApplyQuestion>& questions) {
  if (!plan.writes_branches() || !is_suspicious(plan.beyond) || args.has("yes")) return;
  questions.push_back({.about = "commits", .why = describe_foreign(plan.beyond), .agree = "--yes", .files = {}});
}

Status bring_commits(const Arguments& args, const AgentOverlay& overlay, CommitsPlan& plan) {
  if (plan.taken) {
    WARREN_TRY(keep_renamed_content(overlay, plan.brought));
    WARREN_TRY(plan.import->bring(plan.branch, replaces_branch(args)));
    plan.written.push_back(plan.branch);
    Result<MergeOutlook> outlook = plan.import->foresee_merge();
    if (outlook.ok()) plan.outlook = *std::move(outlook);  // otherwise git says what is in the way
    bool is_head = plan.taken->commit == plan.found.head;
    if (is_head) WARREN_TRY(note_brought(overlay, plan.taken->commit, std::move(plan.brought)));
  }
  WARREN_TRY(bring_merged_branches(plan));
  if (plan.beyond.taken_back.empty()) return Ok{};
  return keep_removed_after_commit(overlay, plan.beyond.taken_back);
}

Json commits_json(const CommitsPlan& plan) {
  Json json{{"count", plan.description.count}, {"committed", plan.committed}};
  if (plan.taken) {
    json["branch"] = printable(plan.branch);
    json["commit"] = plan.taken->commit;
    json["subject"] = printable(plan.description.subject);
  }
  Json others = Json::array();
  for (const MergedBranch& other : plan.others) {
    if (other.is_brought) others.push_back({{"branch", printable(other.branch.name)}, {"commit", other.branch.commit}});
  }
  json["others"] = std::move(others);
  json["replaces"] = plan.replaced_others;
  Json held = Json::array();
  for (const std::string& path : plan.held) held.push_back(printable(path));
  json["held"] = std::move(held);
  Json staying = Json::array();
  for (const std::string& path : plan.staying) staying.push_back(printable(path));
  json["ignored"] = std::move(staying);
  Json excluded = Json::array();
  for (const std::string& path : plan.excluded) excluded.push_back(printable(path));
  json["excluded"] = std::move(excluded);
  Json foreign = Json::array();
  for (const auto* paths : {&plan.beyond.foreign, &plan.beyond.reverted}) {
    for (const std::string& path : *paths) foreign.push_back(printable(path));
  }
  json["not_of_session"] = std::move(foreign);
  Json uncommitted = Json::array();
  for (const std::string& path : plan.beyond.uncommitted) uncommitted.push_back(printable(path));
  json["your_uncommitted"] = std::move(uncommitted);
  Json stashed = Json::array();
  for (const std::string& path : plan.beyond.stashed) stashed.push_back(printable(path));
  json["your_stashed"] = std::move(stashed);
  Json running = Json::array();
  for (const SelfRunningFile& file : plan.self_running)
    running.push_back({{"path", printable(file.path)}, {"runs", file.runs}});
  json["runs_by_itself"] = std::move(running);
  return json;
}

void print_commits(Context& context, const Arguments& args, const CommitsPlan& plan) {
  Output& out = context.out;
  const std::string& id = args.get("ID");
  if (plan.taken) {
    out.print("{} {}: {}, up to {} {}\n", args.has("dry-run") ? "would write the branch" : "branch",
              out.name(plan.branch), counted(plan.description.count, "commit"), plan.taken->commit.substr(0, kShortId),
              out.name(quote(plan.description.subject)));
    print_replaced(out, args, plan);
    print_self_running(out, plan);
    if (is_notable(plan.beyond)) out.print("  {}\n", out.name(describe_foreign(plan.beyond)));
    if (!args.has("dry-run")) print_merge_advice(out, plan.branch, plan.taken->commit, plan.outlook);
  } else if (plan.is_rebasing) {
    out.print("the agent's commits are on its branch, which is being rebased\n");
  } else if (!plan.container.empty()) {
    out.print("the agent's commits are already in {}\n", out.name(plan.container));
  } else if (plan.found.is_head_squashed) {
    out.print("what the agent's commits change is already in your HEAD, as other commits\n");
  }
  print_merged_branches(out, args, plan);
  if (!plan.excluded.empty()) {
    out.print("excluded, but in the commits: {}; --no-commits applies the changes as files, without {}\n",
              out.name(listed(plan.excluded)), plan.excluded.size() == 1 ? "it" : "them");
  }
  if (plan.committed > 0) {
    out.print("{} in the commits, not written as {}\n",
              plan.committed == 1 ? "1 change is" : fmt::format("{} changes are", plan.committed),
              plan.committed == 1 ? "a file" : "files");
  }
  if (!plan.held.empty()) {
    bool is_one = plan.held.size() == 1;
    out.print("not written yet, because {} changed again after the commits: {}\n", is_one ? "it was" : "they were",
              out.name(listed(plan.held)));
    out.print("  warren apply {} --merge   writes {}, once the commits are merged\n", out.name(id),
              is_one ? "it" : "them");
  }
  if (plan.staying_files > 0) {
    out.print("{} that git ignores {} in the session: {}; --ignored writes {}\n", counted(plan.staying_files, "file"),
              plan.staying_files == 1 ? "stays" : "stay", out.name(listed({plan.staying.begin(), plan.staying.end()})),
              plan.staying_files == 1 ? "it" : "them");
  }
  for (std::size_t i = 0; i < plan.found.brings.size() && i <= kPathsShown; ++i) {
    const AgentBranch& other = plan.found.brings[i];
    if ((plan.taken && other.commit == plan.taken->commit) || other.name.empty()) continue;
    out.print("more commits are on the agent's branch {}\n", out.name(other.name));
    if (printable(other.name) != other.name) continue;  // a command with its name could not be copied
    out.print("  warren apply {} --commits --from {} --branch NAME   brings them\n", out.name(shell_word(id)),
              shell_word(other.name));
  }
}

Status print_left_out_git(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& left_out) {
  std::vector<std::string> notable;
  std::optional<Timestamp> made = find_time_of_made_repository(left_out);
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  for (const TreeChange& change : left_out) {
    if (made && change.after && change.after->mtime == *made) continue;
    bool is_across =
        change.kind == TreeChangeKind::kRenamed && is_in_git_dir(change.path) != is_in_git_dir(change.base_path);
    bool is_object = change.path.find("/.git/objects/") != change.path.npos;
    if (is_object && !is_across) continue;
    Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
    if (is_across || !remarks.runs.empty()) notable.push_back(change.path);
  }
  if (notable.empty()) return Ok{};
  context.err.print("left out, because it is in .git: {}; name a path to include it\n",
                    context.err.name(listed(notable)));
  return Ok{};
}

void print_new_commits(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                       const std::vector<TreeChange>& left_out) {
  Result<std::optional<GitUnderWay>> under_way = find_git_under_way(overlay, left_out);
  if (under_way.ok() && *under_way) context.err.line(context.err.name(describe_under_way(**under_way)));
  Result<std::optional<AgentCommits>> found = find_commits(overlay);
  if (!found.ok()) {
    context.err.print("cannot tell what the agent has committed: {}\n", context.err.name(found.error().message()));
    return;
  }
  print_strays(context, overlay, left_out);
  if (!*found) return;
  for (const AgentBranch& one : (*found)->brings) {
    bool comes_along = one.commit == (*found)->brings.front().commit ||
                       std::ranges::find((*found)->merged, one.commit, &AgentBranch::commit) != (*found)->merged.end();
    std::string name = one.name.empty() ? std::string("HEAD") : context.err.name(one.name);
    context.err.print("new commits: {} is at {}; `warren apply` {}\n", name, one.commit.substr(0, kShortId),
                      comes_along ? "brings them as a branch" : "says how to bring them");
  }
  print_foreign(context, overlay, **found, changes, left_out);
}

}  // namespace warren::cli
