#include "changes/commits/commits.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "base/printable.h"
#include "changes/git/base_heads.h"
#include "changes/git/quarantine.h"
#include "changes/pinned/pinned_git.h"
#include "fs/path_ops.h"
#include "store/identity.h"

namespace warren {
namespace {

constexpr const char* kGitDir = "/.git";
constexpr const char* kGitHead = "/.git/HEAD";

// A branch or tag of the repository that contains the commit; "" if there is none.
Result<std::string> find_ref_with(Git& git, const std::string& commit) {
  if (!WARREN_TRY(has_commit(git, commit))) return std::string();
  return git.ask({"for-each-ref", "--count=1", "--contains=" + commit, "--format=%(refname:short)"});
}

// Those that the base's references do not name, and did not at the agent's start. HEAD's first; each commit once.
std::vector<AgentBranch> list_candidates(const GitHeads& agent, const GitHeads& base, const std::string& start,
                                         const std::optional<PinnedGit>& pinned) {
  std::set<std::string> known{base.commit, start, ""};
  for (const auto& [name, commit] : base.branches) known.insert(commit);
  if (pinned) {
    for (const auto& [name, commit] : pinned->references) known.insert(commit);
  }
  std::vector<AgentBranch> found;
  if (known.insert(agent.commit).second) found.push_back({agent.branch, agent.commit});
  for (const auto& [name, commit] : agent.branches) {
    if (known.insert(commit).second) found.push_back({name, commit});
  }
  return found;
}

std::vector<AgentBranch> list_merged(const GitHeads& agent, const std::optional<PinnedGit>& pinned) {
  std::vector<AgentBranch> found;
  if (!pinned) return found;
  std::set<std::string> known{agent.commit, pinned->head};
  for (const auto& [name, commit] : pinned->references) known.insert(commit);
  for (const auto& [name, commit] : agent.branches) {
    if (name.starts_with("warren/") && known.insert(commit).second) found.push_back({name, commit});
  }
  if (found.size() > limits::kGitNewBranches) found.clear();
  return found;
}

constexpr const char* kAsFiles = "--no-commits applies the changes as files";

// Whether the agent has no repository of its own to look at, and has not made it so: it was hidden from it, or the base
// is a linked worktree, which has a file that says where its repository is.
bool has_no_repository(const AgentOverlay& overlay) {
  bool is_hidden = std::any_of(overlay.hidden.begin(), overlay.hidden.end(),
                               [](const std::string& path) { return is_at_or_below(kGitHead, path); });
  if (is_hidden) return true;
  Result<Attributes> in_base = lstat(overlay.base, kGitDir);
  return in_base.ok() && in_base->is_file() && has_git_of_base(overlay);
}

}  // namespace

bool has_git_of_base(const AgentOverlay& overlay) {
  Result<Attributes> own = lstat(overlay.upper.fs(), kGitDir);
  return !own.ok() && own.error().code() == Code::kNotFound && lstat(overlay.merged, kGitDir).ok();
}

Result<std::optional<AgentCommits>> find_commits(const AgentOverlay& overlay) {
  std::optional<AgentCommits> none;
  std::optional<GitHeads> agent = WARREN_TRY(find_git_heads(overlay.merged, kGitDir));
  std::optional<GitHeads> base = WARREN_TRY(find_base_heads(overlay));
  if (!base) return none;
  if (!agent) {
    if (has_no_repository(overlay)) return none;
    return Error(Code::kCorrupt, "the agent's repository has no HEAD that can be read", kAsFiles);
  }
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay));
  AgentCommits commits{.start = overlay.note ? overlay.note->commit : "", .head = agent->commit, .brings = {}};
  if (pinned) commits.start = pinned->head;
  commits.merged = list_merged(*agent, pinned);
  bool is_moved = (!agent->commit.empty() && agent->commit != commits.start) || !commits.merged.empty();
  std::vector<AgentBranch> candidates = list_candidates(*agent, *base, commits.start, pinned);
  if (!is_moved && candidates.empty()) return none;
  if (candidates.size() > limits::kGitNewBranches) {
    return Error(Code::kLimit,
                 fmt::format("the agent's repository has more than {} branches with other commits than "
                             "the base",
                             limits::kGitNewBranches),
                 kAsFiles);
  }
  Git git(overlay.base_path);
  for (AgentBranch& one : candidates) {
    std::string container = WARREN_TRY(find_ref_with(git, one.commit));
    bool is_known = !container.empty() || WARREN_TRY(is_in_head_otherwise(git, one.commit));
    if (!is_known) commits.brings.push_back(std::move(one));
  }
  bool is_brought = !commits.brings.empty() && commits.brings.front().commit == commits.head;
  bool may_be_squashed = !commits.head.empty() && commits.head != commits.start && !is_brought;
  if (may_be_squashed) commits.is_head_squashed = WARREN_TRY(is_in_head_otherwise(git, commits.head));
  if (!is_moved && commits.brings.empty()) return none;
  return std::optional(std::move(commits));
}

Result<bool> has_lost_head(const AgentOverlay& overlay) {
  std::optional<GitHeads> agent = WARREN_TRY(find_git_heads(overlay.merged, kGitDir));
  if (!agent || !agent->commit.empty()) return false;
  std::optional<GitHeads> base = WARREN_TRY(find_base_heads(overlay));
  if (!base || base->commit.empty()) return false;
  // An agent can write the pinned state, but not the note.
  if (overlay.note && !overlay.note->commit.empty()) return true;
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay));
  return pinned ? !pinned->head.empty() : !overlay.note;
}

CommitImport::CommitImport(const AgentOverlay& overlay, ScratchDir scratch, std::shared_ptr<const ScratchDir> objects,
                           std::string head, std::string commit)
    : overlay_(overlay),
      scratch_(std::move(scratch)),
      objects_(std::move(objects)),
      quarantine_(objects_->path() + "/quarantine"),
      head_(std::move(head)),
      commit_(std::move(commit)),
      base_(overlay.base_path),
      joined_(overlay.base_path) {
  joined_.borrow_objects(quarantine_ + "/objects");
  joined_.allow_lazy_fetch();  // old versions of the user's own files, to compare with
}

Error CommitImport::damaged(const Captured& git) { return damaged(trimmed(git.errors, kWhitespace)); }

Error CommitImport::damaged(std::string_view why) {
  return Error(Code::kCorrupt, fmt::format("the agent's commits are incomplete or damaged: {}", why), kAsFiles);
}

Result<std::unique_ptr<CommitImport>> CommitImport::prepare(const AgentOverlay& overlay, const AgentCommits& found,
                                                            const std::string& commit,
                                                            const std::vector<TreeChange>& all,
                                                            const CommitImport* other) {
  ScratchDir scratch = WARREN_TRY(ScratchDir::make("commits"));
  std::shared_ptr<const ScratchDir> objects = other != nullptr ? other->objects_ : nullptr;
  if (!objects) {
    ScratchDir made = WARREN_TRY(ScratchDir::make("objects"));
    objects = std::make_shared<const ScratchDir>(std::move(made));
  }
  // If HEAD is not pinned and the agent has not switched to another branch, it is the base's, and may have moved since.
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay));
  bool has_own_head = pinned || std::any_of(all.begin(), all.end(),
                                            [](const TreeChange& change) { return change.path == "/.git/HEAD"; });
  const std::string& head = has_own_head ? found.head : commit;
  std::unique_ptr<CommitImport> made(new CommitImport(overlay, std::move(scratch), std::move(objects), head, commit));
  Captured prefix = WARREN_TRY(made->base_.run({"rev-parse", "--show-prefix"}));
  if (prefix.status != 0 || !trimmed(prefix.output, kWhitespace).empty()) {
    std::string_view why = trimmed(prefix.errors, kWhitespace);
    return Error(Code::kInvalid,
                 fmt::format("git does not take {} for your repository{}{}", quote(overlay.base_path + "/.git"),
                             why.empty() ? "" : ": ", why),
                 kAsFiles);
  }
  made->branch_ = found.branch;
  made->is_head_squashed_ = found.is_head_squashed && head == found.head;
  made->git_dir_ = WARREN_TRY(made->base_.ask({"rev-parse", "--absolute-git-dir"}));
  if (other == nullptr) WARREN_TRY(make_quarantine(overlay, all, made->base_, made->quarantine_));
  WARREN_TRY(made->check_commit(commit));
  if (!head.empty()) WARREN_TRY(made->find_start(found.start));
  return made;
}

Status CommitImport::check_commit(const std::string& commit) {
  Captured valid = WARREN_TRY(joined_.run({"cat-file", "-e", commit + "^{commit}"}));
  if (valid.status == 0) return Ok{};
  std::string loose = fmt::format("/objects/{}/{}", commit.substr(0, 2), commit.substr(2));
  std::optional<struct stat> listed = WARREN_TRY(find_host_file(quarantine_ + loose));
  if (!listed && lstat(overlay_.merged, kGitDir + loose).ok())
    return Error(Code::kStale, "the agent has just committed", "try again");
  return damaged(valid);
}

// The start is what the agent's work tree showed at first, also if its HEAD does not contain it: on another branch,
// files differ from the start because they do in the commits. If the start is not known: where both histories part.
Status CommitImport::find_start(const std::string& start) {
  WARREN_TRY(check_commit(head_));
  is_merged_ = WARREN_TRY(base_.succeeds({"merge-base", "--is-ancestor", head_, "HEAD"}));
  from_ = start;
  if (!start.empty() && WARREN_TRY(has_commit(joined_, start))) {
    start_ = start;
    return Ok{};
  }
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
  bool was_empty = pinned && pinned->head.empty();  // the repository, at the start
  Result<std::string> from = was_empty ? find_empty_tree(joined_) : find_merge_base(head_);
  from_ = WARREN_TRY(std::move(from));
  return Ok{};
}

// Where a commit's history leaves that of the base's HEAD; the empty tree if it never was the same.
Result<std::string> CommitImport::find_merge_base(const std::string& commit) {
  Captured common = WARREN_TRY(joined_.run({"merge-base", "HEAD", commit}));
  std::string found(trimmed(common.output, kWhitespace));
  if (common.status == 0 && !found.empty()) return found;
  return find_empty_tree(joined_);
}

Result<CommitImport::Description> CommitImport::describe() { return describe({{.name = "", .commit = commit_}}); }

Result<CommitImport::Description> CommitImport::describe(const std::vector<AgentBranch>& branches) {
  std::vector<std::string> words{"rev-list", "--count"};
  for (const AgentBranch& one : branches) words.push_back(one.commit);
  words.insert(words.end(), {"--not", "--all"});
  Captured counted = WARREN_TRY(joined_.run(words));
  std::optional<std::uint64_t> count = parse_number<std::uint64_t>(trimmed(counted.output, kWhitespace));
  if (counted.status != 0 || !count) return damaged(counted);
  std::string subject = WARREN_TRY(joined_.ask({"log", "-1", "--format=%s", branches.front().commit}));
  return Description{*count, cut_subject(std::move(subject))};
}

Result<std::string> CommitImport::find_container() { return find_ref_with(base_, commit_); }

Result<std::string> CommitImport::find_branch(const std::string& branch) {
  Captured found = WARREN_TRY(base_.run({"rev-parse", "--verify", "--quiet", "refs/heads/" + branch}));
  return std::string(found.status == 0 ? trimmed(found.output, kWhitespace) : std::string_view());
}

// git keeps branches as files: none can have the name of another one's directory.
Status CommitImport::check_free_of_branches(const std::string& branch) {
  std::string in_the_way;
  for (std::size_t at = branch.find('/'); at != branch.npos; at = branch.find('/', at + 1)) {
    std::string above = branch.substr(0, at);
    if (!WARREN_TRY(find_branch(above)).empty()) in_the_way = above;
  }
  if (in_the_way.empty()) {
    in_the_way =
        WARREN_TRY(base_.ask({"for-each-ref", "--count=1", "--format=%(refname:short)", "refs/heads/" + branch + "/"}));
  }
  if (in_the_way.empty()) return Ok{};
  return Error(
      Code::kExists,
      fmt::format("the branch {} cannot be made, because there is a branch {}", quote(branch), quote(in_the_way)),
      "--branch NAME takes another one");
}

Result<CommitImport::BranchState> CommitImport::look_at_branch(const std::string& branch) {
  WARREN_TRY(check_is_not_full_name(branch));
  bool is_name = is_branch_name(branch) && WARREN_TRY(base_.succeeds({"check-ref-format", "refs/heads/" + branch}));
  if (!is_name) return Error(Code::kInvalid, fmt::format("{} is not a valid branch name", quote(branch)));
  std::string old = WARREN_TRY(find_branch(branch));
  if (old.empty()) {
    WARREN_TRY(check_free_of_branches(branch));
    return BranchState::kNew;
  }
  if (old == commit_) return BranchState::kSame;
  std::string trees = WARREN_TRY(base_.ask({"worktree", "list", "--porcelain"}))
  +"\n";
  if (trees.find("\nbranch refs/heads/" + branch + "\n") != trees.npos) {
    return Error(Code::kBusy, fmt::format("the branch {} is checked out", quote(branch)),
                 "--branch NAME takes another one");
  }
  bool is_behind = WARREN_TRY(joined_.succeeds({"merge-base", "--is-ancestor", old, commit_}));
  if (is_behind) return BranchState::kBehind;
  bool is_own = WARREN_TRY(is_own_branch(branch, old));
  return is_own ? BranchState::kOwn : BranchState::kOther;
}

Result<std::uint64_t> CommitImport::count_others(const std::string& branch) {
  std::string counted = WARREN_TRY(joined_.ask({"rev-list", "--count", "refs/heads/" + branch, "^" + commit_, "--"}));
  std::optional<std::uint64_t> count = parse_number<std::uint64_t>(counted);
  if (!count) return Error(Code::kInvalid, fmt::format("cannot count the commits of the branch {}", quote(branch)));
  return *count;
}

Status CommitImport::set_writer(Agent& agent) {
  Store& store = agent.store();
  std::optional<std::string> identity = WARREN_TRY(find_identity(store));
  if (!identity && !store.is_read_only()) identity = WARREN_TRY(ensure_identity(store));
  if (identity) writer_ = fmt::format("{} ({})", printable(agent.id()), *identity);
  return Ok{};
}

std::string CommitImport::log_message() const {
  return writer_.empty() ? "warren: commits of an agent" : fmt::format("warren: commits of agent {}", writer_);
}

// By the log of the branch, which no agent can write. Commits that one of the agent's branches still has were not
// replaced.
Result<bool> CommitImport::is_own_branch(const std::string& branch, const std::string& old) {
  if (writer_.empty()) return false;
  Captured last = WARREN_TRY(base_.run({"log", "-g", "-1", "--format=%H %gs", "refs/heads/" + branch, "--"}));
  if (last.status != 0 || trimmed(last.output, kWhitespace) != old + " " + log_message()) return false;
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(overlay_.merged, kGitDir));
  if (!heads) return false;
  std::string asked = old + "\n";
  if (!heads->commit.empty()) asked += fmt::format("^{}\n", heads->commit);
  for (const auto& [name, commit] : heads->branches) asked += fmt::format("^{}\n", commit);
  std::string left = WARREN_TRY(joined_.ask_with({"rev-list", "-1", "--ignore-missing", "--stdin"}, asked));
  return !left.empty();
}

Status CommitImport::bring(const std::string& branch, ReplaceBranch replace) {
  std::string old = WARREN_TRY(find_branch(branch));
  BranchState state = WARREN_TRY(look_at_branch(branch));
  if (state == BranchState::kSame) return Ok{};
  if (state == BranchState::kOther && replace == ReplaceBranch::kNo) {
    return Error(Code::kExists,
                 fmt::format("the branch {} has commits that are not in the agent's branch", quote(branch)),
                 kTakeOtherBranch);
  }
  Git quarantine(quarantine_);
  Captured named = WARREN_TRY(quarantine.run({"update-ref", "refs/heads/import", commit_}));
  if (named.status != 0) return damaged(named);
  Git fetching(overlay_.base_path);
  for (const char* setting : {"fetch.fsckObjects=true", "protocol.file.allow=always", "fetch.writeCommitGraph=false"})
    fetching.add_setting(setting);
  fetching.add_setting(fmt::format("core.bigFileThreshold={}", limits::kGitStreamedAbove));
  Captured fetched =
      WARREN_TRY(fetching.run({"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
                               "--refmap=", quarantine_, "refs/heads/import"}));
  if (fetched.status != 0) return damaged(fetched);
  Captured whole = WARREN_TRY(base_.run({"rev-list", "--objects", "--quiet", commit_, "--not", "--all"}));
  if (whole.status != 0) return damaged(whole);
  Captured written = WARREN_TRY(
      base_.run({"update-ref", "--create-reflog", "-m", log_message(), "refs/heads/" + branch, commit_, old}));
  if (written.status == 0) return Ok{};
  return Error(Code::kExists,
               fmt::format("cannot write the branch {}: {}", quote(branch), trimmed(written.errors, kWhitespace)));
}

}  // namespace warren
