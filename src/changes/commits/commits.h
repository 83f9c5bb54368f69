// Commits that an agent made in the base's git repository: they arrive as a branch, brought by git itself.
//
// Nothing of the agent's .git is believed or copied as it is. Its references are read as text (changes/git/git_refs.h),
// and its new objects go to a repository of ours (changes/git/quarantine.h). The base's own git then fetches one commit
// from there, checks every object and that none is missing, and only then the branch is written. So a hook, a setting,
// a link or an alternate in the agent's .git has no effect. See docs/design/changes.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/apply/intent.h"
#include "changes/apply/resolve.h"
#include "changes/changes.h"
#include "changes/git/git.h"
#include "changes/git/git_refs.h"

namespace warren {

namespace limits {
inline constexpr std::size_t kGitNewBranches = 64;  // branches with commits of the agent
}  // namespace limits

// A branch of the agent's repository with commits that no branch or tag of the base's repository contains, and that
// were not merged there as other commits.
struct AgentBranch {
  std::string name;  // "" if HEAD names a commit instead of a branch
  std::string commit;
};

struct AgentCommits {
  std::string start;                // HEAD when the agent was created; "" if unknown
  std::string head;                 // the agent's HEAD; "" before the first commit
  std::vector<AgentBranch> brings;  // that of HEAD first
  // Branches "warren/NAME" that the session did not start with: `warren merge` has put them there. Those that the base
  // has by now are among them.
  std::vector<AgentBranch> merged = {};
  bool is_head_squashed = false;  // the base's HEAD has what the agent's changes, as other commits
  std::string branch = {};        // "warren/NAME" if `head` is that of such a branch; "" for HEAD itself
};

// nullopt if the agent has made no commits and its HEAD is where it was, or the base is not the top of a repository.
// Runs git only if the references of agent and base differ: kNotFound without git. kCorrupt if the agent's repository
// has no HEAD that can be read.
Result<std::optional<AgentCommits>> find_commits(const AgentOverlay& overlay);

// Whether the agent has left .git as it is in the base: nothing was written or removed there.
bool has_git_of_base(const AgentOverlay& overlay);

// Whether the agent's HEAD names no commit, although it did at the session's start: what it has committed is not known.
Result<bool> has_lost_head(const AgentOverlay& overlay);

// What helps if a branch has commits of its own.
inline constexpr const char* kTakeOtherBranch =
    "--branch NAME takes another one; --commits --force replaces it and writes no files";

// A commit of a submodule that the base's submodule does not have.
struct MissingSubmodule {
  std::string path;  // "vendor/lib"
  std::string commit;
};

struct MergeOutlook {
  bool has_head = true;                      // false before the base's first commit
  bool is_related = true;                    // both have a commit in common; true without a HEAD
  std::vector<std::string> as_committed;     // local changes in the way that are what the commits have: "src/a"
  std::vector<std::string> otherwise;        // other local changes in the way
  std::vector<MissingSubmodule> submodules;  // that the commits name
};

enum class ReplaceBranch { kNo, kYes };

// The agent's commits, ready to be brought. For one thread; the overlay must outlive it.
class CommitImport {
 public:
  // `commit` is the one of the agent's to bring. `all` are all changes of the agent, with those in .git. kCorrupt for
  // invalid objects, kTooLarge, kStale if the agent has made the commit since `all` was listed. `other` is one of
  // another commit of this agent, whose copy of the objects is used.
  static Result<std::unique_ptr<CommitImport>> prepare(const AgentOverlay& overlay, const AgentCommits& found,
                                                       const std::string& commit, const std::vector<TreeChange>& all,
                                                       const CommitImport* other = nullptr);

  // How a change relates to the agent's HEAD.
  enum class Where : std::uint8_t {
    kFiles,    // not committed
    kCommits,  // the commits contain it
    kBoth,     // the commits contain a part of it: it was changed again after them, or something above it is in them
  };
  struct Sorted {
    std::vector<Where> where;            // one entry for each change
    std::vector<AppliedChange> brought;  // what the commits have of them, for note_brought
  };
  // Git compares, so content filters count. Sets TreeChange::committed.
  Result<Sorted> sort(std::vector<TreeChange>& changes);

  // Files that the commits of HEAD's branch change, though the session has no change in them and the base does
  // not have that version. For another branch only what it would publish, and nothing for commits that are merged.
  struct Beyond {
    // Work of others: the base's files changed while the agent committed, and its commit has them, or takes them back.
    std::vector<std::string> foreign;
    // The commits are on top of newer work of others, and do not contain it in these files: they take it back.
    std::vector<std::string> reverted;
    // The agent changed them after the commits, to what the base has.
    std::vector<std::string> taken_back;
    // The user's uncommitted work, as the session found it. Those that the base's index does not have are untracked,
    // too: they would be published with the branch. So would those that any of the commits has, not only the last one.
    std::vector<std::string> uncommitted;
    std::vector<std::string> untracked;
    // Any of the commits has them as only a stash of the user's has a file, under whatever name.
    std::vector<std::string> stashed;
  };
  Result<Beyond> look_beyond(const std::vector<TreeChange>& changes);

  // Sets TreeChange::takes_back_work where the session has a file as the agent's HEAD does, no commit of the agent
  // changes it, and the base has something else, which is not this agent's: `git stash`, `reset --hard`, `checkout` and
  // `clean` put the user's work aside in the session. Not for what git ignores.
  Status mark_taken_back(std::vector<TreeChange>& changes);

  struct Description {
    std::uint64_t count = 0;  // commits that the base's repository does not have
    std::string subject;      // of the last one
  };
  Result<Description> describe();
  // Of several branches together, which must not be empty; the subject is that of the first.
  Result<Description> describe(const std::vector<AgentBranch>& branches);
  // Files that any of the commits changes which the base's repository does not have: "src/a". Sorted.
  Result<std::vector<std::string>> list_brought();
  // Whether the commit contains another one of the agent's.
  Result<bool> contains(const std::string& commit);
  Result<bool> contains_in_head(const std::string& commit);  // the same for the agent's HEAD
  // What the commits change that runs by itself (changes/review/remarks.h) once they are merged.
  Result<std::vector<SelfRunningFile>> list_self_running();
  // A branch or tag of the base's repository that contains the commit; "" if there is none.
  Result<std::string> find_container();

  // What `git merge` of the commit meets in the base, as far as it can be known before.
  Result<MergeOutlook> foresee_merge();

  // Whose commits they are: the log of each branch that is written says so. If this is not called, no branch is kOwn.
  // The agent gets an identity (store/identity.h) if it has none and can be written.
  Status set_writer(Agent& agent);

  enum class BranchState { kNew, kBehind, kSame, kOwn, kOther };
  // How a branch of the base's repository relates to the commit: it does not exist, the commit contains it, it is
  // there, it is where this agent's last apply put it and the agent has replaced those commits since (an amendment, a
  // rebase), or it has commits of its own. kInvalid for a bad name, kBusy if it would have to move but is checked out.
  // kExists if git cannot have both this branch and another one.
  Result<BranchState> look_at_branch(const std::string& branch);
  // The commits of a branch of the base's repository that are not in the commit.
  Result<std::uint64_t> count_others(const std::string& branch);
  // Fetches the commit and writes the branch, with a log, which keeps its old commit. kExists if the branch has
  // commits of its own (unless it is to be replaced), or somebody moves it meanwhile; kCorrupt if an object is missing
  // or invalid.
  Status bring(const std::string& branch, ReplaceBranch replace);

 private:
  CommitImport(const AgentOverlay& overlay, ScratchDir scratch, std::shared_ptr<const ScratchDir> objects,
               std::string head, std::string commit);
  static Error damaged(const Captured& git);
  static Error damaged(std::string_view why);
  struct Candidate {
    char status = 'M';                // since the agent's start: A M D T
    std::optional<Attributes> shown;  // in the merged tree
  };
  Result<Beyond> look_at_head(const std::vector<TreeChange>& changes);
  Result<std::vector<std::string>> list_newly_committed();
  Result<std::vector<std::string>> list_on_others(const std::vector<TreeChange>& changes,
                                                  const std::vector<std::string>& names, bool is_behind);
  Result<std::vector<std::string>> list_reverted(const std::string& common);
  Result<bool> is_as_at_start(const std::string& path);
  Result<bool> has_in_base(const std::string& name);
  Result<std::string> find_arrival(const std::string& common);
  Result<Beyond> sort_candidates(const std::unordered_map<std::string, Candidate>& candidates, bool is_base_behind);
  Status leave_out_renamed_back(Beyond& beyond);
  Result<std::unordered_set<std::string>> list_applied();
  // All that the base does not have, one id on each line. What only its stash leads to is not published yet.
  Result<std::string> list_brought_commits();
  // "src/a" → the ids of its versions in these.
  using Versions = std::unordered_map<std::string, std::unordered_set<std::string>>;
  Result<Versions> list_brought_versions();
  Result<std::vector<std::string>> list_published(const Versions& versions);
  Result<std::vector<std::string>> list_stashed(const Versions& versions);
  Result<std::vector<std::string>> list_untracked(const std::vector<std::string>& paths);
  Result<std::unordered_set<std::string>> list_changed_since(const std::string& from);
  Result<std::unordered_set<std::string>> list_to_merge();
  Result<std::unordered_set<std::string>> list_taken_back(const std::vector<TreeChange>& changes,
                                                          const std::unordered_set<std::string>& of_base);
  // Of these files, those that the base's work tree has otherwise than its HEAD.
  Result<std::unordered_set<std::string>> list_uncommitted(const std::vector<std::string>& names);
  Result<std::unordered_set<std::string>> list_committed_otherwise();
  Result<std::unordered_set<std::string>> list_dirty_candidates(
      const std::unordered_map<std::string, Candidate>& candidates);
  Status check_commit(const std::string& commit);
  Status find_start(const std::string& start);
  Result<std::string> find_merge_base(const std::string& commit);
  Result<std::unordered_set<std::string>> list_unlike_head(const std::string& work);
  Result<std::unordered_set<std::string>> list_seen_in_head(std::unordered_set<std::string> names);
  Result<bool> contains_version(const TreeChange& change, const std::string& newer);
  Result<bool> set_committed(TreeChange& change, const std::unordered_set<std::string>& seen);
  Status check_free_of_branches(const std::string& branch);
  Result<std::string> find_branch(const std::string& branch);
  std::string log_message() const;
  Result<bool> is_own_branch(const std::string& branch, const std::string& old);

  const AgentOverlay& overlay_;
  ScratchDir scratch_;
  std::shared_ptr<const ScratchDir> objects_;  // has the quarantine; imports of other commits use it, too
  std::string quarantine_;
  std::string head_;    // "" before the first commit
  std::string branch_;  // whose commit that is; "" for HEAD itself
  std::string commit_;
  std::string writer_;  // "" if unknown
  std::string git_dir_;
  std::string start_;       // the agent's HEAD at its start; "" if unknown, or the base does not have it any more
  std::string from_;        // the commit or tree that the agent's HEAD is compared with
  bool is_merged_ = false;  // the base's HEAD contains the agent's
  bool is_head_squashed_ = false;  // it has what that changes, as other commits
  Git base_;                       // the base's repository
  Git joined_;                     // the same, with the objects of the quarantine
};

// If the agent's commits cannot be looked at: paths of changes that may take back uncommitted work of the user's,
// because the base's file is not as in its HEAD, or that is not known. Not what is this agent's, or ignored in the
// base.
std::vector<std::string> list_work_in_doubt(const AgentOverlay& overlay, const std::vector<TreeChange>& changes);

// What the base has from this agent, as far as is known for certain: by the records that no agent can write, and not by
// the list in the session (list_applied_paths), so that an agent cannot keep a question from being asked.
std::unordered_set<std::string> list_known_applied(const AgentOverlay& overlay);

// Files that the agent removed after it had committed them, and that the base never had: their names stay removed when
// the commits are merged.
Status keep_removed_after_commit(const AgentOverlay& overlay, const std::vector<std::string>& paths);

}  // namespace warren
