// What apply does with an agent's commits: they become a branch, and the rest is written as files.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "changes/commits/commits.h"
#include "changes/commits/ignored.h"
#include "changes/pinned/merged_work.h"
#include "changes/selection.h"
#include "changes/upper/open_overlay.h"
#include "cli/changes/apply_consent.h"
#include "cli/context.h"
#include "cli/syntax/args.h"

namespace warren::cli {

std::vector<Option> commit_options();
// nullopt if the options about commits can be used together with the others. `targets`: --to, --as-patch, --as-branch.
std::optional<std::string_view> find_commit_misuse(const Arguments& args, int targets);

// A branch that `warren merge` has put into the session (cli/changes/merged_branches.h).
struct MergedBranch {
  AgentBranch branch;
  std::unique_ptr<CommitImport> import;
  bool is_brought = false;  // now
  CommitImport::Description description;
  MergeOutlook outlook;
};

// The agent's commits, and what is to be done with them.
struct CommitsPlan {
  AgentCommits found;
  std::unique_ptr<CommitImport> import;
  std::optional<AgentBranch> taken;   // nullopt if the base's repository has all commits already
  std::string branch;                 // in the base's repository
  bool is_replacing = false;          // commits that the last apply wrote there, and that the agent has replaced
  std::uint64_t replaced_others = 0;  // commits of others there, with --commits --force
  CommitImport::Description description;
  std::vector<MergedBranch> others;
  std::vector<SelfRunningFile> self_running;  // in the commits
  CommitImport::Beyond beyond;                // what the commits change, and the session does not
  MergeOutlook outlook;                       // once they were brought
  std::string container;                      // without `taken`: what contains the agent's HEAD
  bool is_rebasing = false;                   // HEAD is not on the branch that has the commits
  std::vector<CommitImport::Where> where;     // of each change; empty if no files are to be written
  std::size_t committed = 0;                  // changes that are not written as files, because the commits contain them
  std::vector<std::string> held;              // changes that must wait until the commits are merged
  std::vector<AppliedChange> brought;         // changes that the commits contain, or an older state of them
  std::vector<std::string> excluded;          // files that --exclude names, and that the brought commits change
  std::vector<std::string> written;           // branches, by bring_commits
  IgnoredPaths ignored;                       // by git: they stay in the session
  std::set<std::string> staying;              // the topmost of them that were asked for
  std::size_t staying_files = 0;

  bool writes_branches() const {
    return taken || std::any_of(others.begin(), others.end(), [](const MergedBranch& one) { return one.is_brought; });
  }
};

// nullopt if there is nothing to bring, or the options or a PATH say that files are meant. `all`: with those in .git.
Result<std::optional<CommitsPlan>> plan_commits(const Arguments& args, OverlayAgent& opened,
                                                const std::vector<TreeChange>& all);
// Takes the changes that are to be written as files. Not what git ignores: it belongs to the work tree, as with a git
// worktree.
void take_files(CommitsPlan& plan, const std::vector<TreeChange>& changes, const ChangeFilter& filter,
                Selection& chosen);

// Finds out which changes the commits contain, unless no files are to be written, and what they contain besides.
Status compare_with_commits(const Arguments& args, const AgentOverlay& overlay, CommitsPlan& plan,
                            std::vector<TreeChange>& changes);
// Marks the changes that take back uncommitted work of the user's, if the agent has committed: what git put aside for
// that is not meant for the base. Returns what may do so, if that cannot be known. `all`: with those in .git.
WorkInDoubt mark_taken_back(const AgentOverlay& overlay, std::vector<TreeChange>& all);
// The same for what a plan writes as files.
Result<WorkInDoubt> mark_taken_back(const AgentOverlay& overlay, CommitsPlan& plan, std::vector<TreeChange>& changes);
// The same as the first for a list that is shown, with TreeChange::is_in_commits, also for what merged sessions have
// committed.
WorkInDoubt mark_by_commits(const AgentOverlay& overlay, std::vector<TreeChange>& all);
void print_work_in_doubt(Context& context, const WorkInDoubt& doubt);  // on standard error
// Whether the user agrees to commits that contain work of others, or untracked files of theirs: there is none, --yes is
// given, or they say so now. Without a terminal it is an error that names the option.
Result<bool> agrees_to_foreign(Context& context, const Arguments& args, const CommitsPlan& plan);
// The same for a rehearsal.
void add_foreign_question(const Arguments& args, const CommitsPlan& plan, std::vector<ApplyQuestion>& questions);

Status bring_commits(const Arguments& args, const AgentOverlay& overlay, CommitsPlan& plan);
void print_commits(Context& context, const Arguments& args, const CommitsPlan& plan);
Json commits_json(const CommitsPlan& plan);

// Says on standard error which hooks and settings in .git are left out, what is under way there, and what commits there
// are.
Status print_left_out_git(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& left_out);
void print_new_commits(Context& context, const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                       const std::vector<TreeChange>& left_out);

}  // namespace warren::cli
