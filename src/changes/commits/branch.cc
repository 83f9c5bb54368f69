#include "changes/commits/branch.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/below.h"
#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "changes/commits/ignored.h"
#include "changes/conflicts.h"
#include "changes/git/git.h"
#include "changes/git/git_folder.h"
#include "changes/git/git_refs.h"
#include "changes/git/git_tree.h"
#include "changes/git/git_work_tree.h"
#include "changes/review/patch.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"
#include "text/diff/git_patch.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

// The commit that becomes the parent. Against the one at the agent's start git itself merges newer work, or reports a
// conflict; against a later one, a file of which it has another version than the agent saw is merged here, or refused.
struct Parent {
  std::string commit;  // "" in a repository without commits
  bool is_start = false;
};

// One commit of an agent's changes.
class BranchCommit {
 public:
  BranchCommit(const AgentOverlay& overlay, const std::vector<ChangedFile>& files, const std::string& message)
      : overlay_(overlay), files_(files), message_(message) {
    if (message.empty()) message_ = fmt::format("Apply the changes of a Warren agent\n\nBase: {}", overlay.base_path);
  }

  // Asks the repository what is needed for every attempt.
  Status prepare(Git& git) {
    top_ = WARREN_TRY(git.ask({"rev-parse", "--show-toplevel"}));
    git_dir_ = WARREN_TRY(git.ask({"rev-parse", "--absolute-git-dir"}));
    prefix_ = WARREN_TRY(git.ask({"rev-parse", "--show-prefix"}));
    std::string who = WARREN_TRY(git.ask({"var", "GIT_COMMITTER_IDENT"}));
    std::size_t open = who.rfind(" <");
    std::size_t close = who.rfind('>');
    if (open == who.npos || close == who.npos) return Error(Code::kInvalid, "git does not know who you are");
    author_ = {who.substr(0, open), who.substr(open + 2, close - open - 2)};
    WARREN_TRY(find_ignored_files());
    return hash_seen();
  }

  // Returns the commit's id. kConflict if the changes cannot be expressed against this parent.
  Result<std::string> make(const Parent& parent) {
    ScratchDir scratch = WARREN_TRY(ScratchDir::make("branch"));
    std::string work = scratch.path() + "/work";
    WARREN_TRY(make_host_dirs(work, 0700));
    std::string index = scratch.path() + "/index";
    Git git(top_);
    git.set_variable("GIT_INDEX_FILE", index);
    git.allow_lazy_fetch();  // HEAD's version of a file, to merge with
    git.set_author(author_.first, author_.second);
    WARREN_TRY(load_parent(git, parent));
    Git in_work(top_);
    WARREN_TRY(in_work.use(git_dir_, work, index));
    auto host = WARREN_TRY(HostTree::open(work));
    std::string removed;
    std::string written;
    for (const ChangedFile& file : files_) {
      bool is_removed = file.before && (!file.after || file.is_renamed()) && !is_in_git_dir(file.before->path);
      bool is_written = file.after && !is_in_git_dir(file.after->path) && !ignored_.contains(file.after->path);
      if (!is_removed && !is_written) continue;
      WARREN_TRY(check_submodules(file));
      std::optional<std::string> content = WARREN_TRY(rebase(git, parent, file));
      if (is_removed) removed += name_of(file.before->path) + '\0';
      if (is_written) WARREN_TRY(write_for_git(overlay_, *file.after, *host, name_of(file.after->path), content));
      if (is_written) written += name_of(file.after->path) + '\0';
    }
    if (files_.empty()) return Error(Code::kInvalid, "nothing to commit: the agent has no changes");
    if (removed.empty() && written.empty())
      return Error(Code::kInvalid, "nothing to commit: git ignores all of the changes or cannot store them");
    // Removals first: files may have swapped names.
    WARREN_TRY(in_work.ask_with({"update-index", "--force-remove", "-z", "--stdin"}, removed));
    WARREN_TRY(in_work.ask_with({"update-index", "--add", "-z", "--stdin"}, written));
    std::string tree = WARREN_TRY(git.ask({"write-tree"}));
    std::vector<std::string> words{"commit-tree", tree, "-F", "-"};
    if (!parent.commit.empty()) words.insert(words.end(), {"-p", parent.commit});
    return git.ask_with(words, message_ + "\n");
  }

 private:
  std::string name_of(const std::string& path) const { return prefix_ + path.substr(1); }

  // The new files that git ignores.
  Status find_ignored_files() {
    std::vector<std::string> paths;
    for (const ChangedFile& file : files_) {
      if (file.after && !is_in_git_dir(file.after->path)) paths.push_back(file.after->path);
    }
    ignored_ = WARREN_TRY(list_ignored_files(overlay_, paths));
    return Ok{};
  }

  // Git's ids of what the agent saw, of files that are still so in the base. By id, so that filters and the size of a
  // file do not matter.
  Status hash_seen() {
    std::vector<const ChangedFile*> hashed;
    std::string names;
    for (const ChangedFile& file : files_) {
      bool is_candidate =
          file.change != nullptr && file.before && file.before->node.is_file() && !is_in_git_dir(file.before->path);
      if (!is_candidate || !WARREN_TRY(is_as_agent_saw(overlay_, *file.change))) continue;
      hashed.push_back(&file);
      names += git_quote(prefix_, file.before->path.substr(1)) + '\n';
    }
    if (hashed.empty()) return Ok{};
    Git git(top_);
    std::string ids = WARREN_TRY(git.ask_with({"hash-object", "--stdin-paths"}, names));
    auto file = hashed.begin();
    for_each_line(ids, [&](std::string_view id) {
      if (file != hashed.end()) seen_.emplace(*file++, id);
    });
    return Ok{};
  }

  Status load_parent(Git& git, const Parent& parent) {
    in_parent_.clear();
    submodules_.clear();
    if (parent.commit.empty()) return Ok{};
    WARREN_TRY(git.ask({"read-tree", parent.commit}));
    std::vector<GitTreeEntry> entries = WARREN_TRY(list_git_tree(git, parent.commit));
    for (GitTreeEntry& one : entries) {
      if (one.is_submodule()) submodules_.push_back(std::move(one.path));
      else if (one.is_file()) in_parent_.emplace(std::move(one.path), std::move(one.id));
    }
    return Ok{};
  }

  // A commit has the files of a submodule only by the id of one of its commits.
  Status check_submodules(const ChangedFile& file) const {
    for (const std::string& submodule : submodules_) {
      for (const auto* side : {&file.before, &file.after}) {
        if (!*side || !is_at_or_below(name_of((*side)->path), submodule)) continue;
        bool is_below_base = submodule.starts_with(prefix_);
        std::string dir = "/" + (is_below_base ? submodule.substr(prefix_.size()) : submodule);
        std::string hint = "`warren apply` writes them as files, for a commit in the submodule";
        if (is_below_base && printable(dir) == dir)
          hint = fmt::format("--exclude {} leaves them out; {}", shell_word(dir), hint);
        return Error(Code::kUnsupported,
                     fmt::format("{} is in the submodule {}, whose files cannot be in a commit of this repository",
                                 quote((*side)->path), quote(dir)),
                     std::move(hint));
      }
    }
    return Ok{};
  }

  // Git's id of what the agent saw; nullopt if that is not known.
  Result<std::optional<std::string>> find_seen_id(Git& git, const ChangedFile& file) {
    auto known = seen_.find(&file);
    if (known != seen_.end()) return std::optional(known->second);
    std::optional<std::string> kept;
    bool is_link = file.before->node.is_symlink();
    if (is_link && WARREN_TRY(is_as_agent_saw(overlay_, *file.change)))
      kept = WARREN_TRY(read_link(overlay_.base, file.before->path));
    else if (!is_link) kept = WARREN_TRY(find_kept(overlay_, *file.change));
    if (!kept) return kept;
    std::vector<std::string> words{"hash-object", "--stdin"};
    if (!is_link) words.push_back("--path=" + name_of(file.before->path));
    else words.push_back("--no-filters");
    return std::optional(WARREN_TRY(git.ask_with(words, *kept)));
  }

  // The content to commit so that the commit has the agent's change and nothing else; nullopt for the agent's whole
  // content.
  Result<std::optional<std::string>> rebase(Git& git, const Parent& parent, const ChangedFile& file) {
    std::optional<std::string> whole;
    if (file.change == nullptr || !file.before) return whole;
    auto theirs_id = in_parent_.find(name_of(file.before->path));
    if (theirs_id == in_parent_.end()) return whole;
    std::optional<std::string> seen_id = WARREN_TRY(find_seen_id(git, file));
    if (seen_id == theirs_id->second) return whole;
    // Git compares with the parent: where others changed the file too, merging the branch shows that.
    if (parent.is_start && (!file.after || !seen_id)) return whole;
    std::string seen = WARREN_TRY(read_seen(overlay_, *file.change));
    bool is_pair = file.after && file.after->node.is_file() && file.before->node.is_file() &&
                   file.after->node.size <= limits::kPatchFileBytes;
    Captured shown =
        WARREN_TRY(git.run({"cat-file", "--filters", "--path=" + name_of(file.before->path), theirs_id->second}));
    if (shown.status == 0 && shown.output == seen) return whole;
    if (is_pair && shown.status == 0) {
      std::string ours = WARREN_TRY(read_file(overlay_.merged, file.after->path));
      if (ours == shown.output) return std::optional(std::move(ours));
      bool is_text = !is_binary(seen) && !is_binary(ours) && !is_binary(shown.output);
      Merged merged = is_text ? merge3(seen, ours, shown.output) : Merged{};
      if (is_text && merged.is_clean()) return std::optional(std::move(merged.text));
    }
    return Error(Code::kConflict,
                 fmt::format("{}: HEAD has another version than the agent saw, and the agent's change does not fit it",
                             quote(file.path())),
                 "commit or stash your own changes of it first, or leave it out by naming the others");
  }

  const AgentOverlay& overlay_;
  const std::vector<ChangedFile>& files_;
  std::string message_;
  std::string top_;
  std::string git_dir_;
  std::string prefix_;
  std::pair<std::string, std::string> author_;
  std::unordered_set<std::string> ignored_;
  std::vector<std::string> submodules_;                       // of the parent: paths in the repository
  std::unordered_map<const ChangedFile*, std::string> seen_;  // → git's id
  std::unordered_map<std::string, std::string> in_parent_;    // path in the repository → git's id
};

Status check_branch(Git& git, const std::string& branch) {
  bool is_inside = WARREN_TRY(git.succeeds({"rev-parse", "--is-inside-work-tree"}));
  if (!is_inside) return Error(Code::kInvalid, "the base is not in a git work tree", "--as-patch does not need one");
  WARREN_TRY(check_is_not_full_name(branch));
  bool is_name = WARREN_TRY(git.succeeds({"check-ref-format", "--branch", branch}));
  if (!is_name || branch.starts_with('-') || branch.starts_with('@'))
    return Error(Code::kInvalid, fmt::format("{} is not a valid branch name", quote(branch)));
  bool is_taken = WARREN_TRY(git.succeeds({"show-ref", "--verify", "--quiet", "refs/heads/" + branch}));
  if (is_taken) return Error(Code::kExists, fmt::format("the branch {} already exists", quote(branch)));
  return Ok{};
}

// HEAD when the agent was made, if that is a commit of this repository, then HEAD.
Result<std::vector<Parent>> list_parents(Git& git, const AgentOverlay& overlay) {
  std::vector<Parent> parents;
  std::string now = WARREN_TRY(find_head_of(git));
  std::string start = overlay.note ? overlay.note->commit : "";
  if (!start.empty() && WARREN_TRY(has_commit(git, start))) parents.push_back({start, true});
  if (parents.empty() || start != now) parents.push_back({now, false});
  return parents;
}

}  // namespace

Result<std::string> commit_to_branch(const AgentOverlay& overlay, const std::vector<TreeChange>& changes,
                                     const std::string& branch, const std::string& message) {
  Git git(overlay.base_path);
  WARREN_TRY(check_branch(git, branch));
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(overlay, changes));
  BranchCommit commit(overlay, files, message);
  WARREN_TRY(commit.prepare(git));
  std::vector<Parent> parents = WARREN_TRY(list_parents(git, overlay));
  Result<std::string> made = commit.make(parents.front());
  bool is_conflict = !made.ok() && made.error().code() == Code::kConflict;
  if (is_conflict && parents.size() > 1) made = commit.make(parents.back());
  std::string id = WARREN_TRY(std::move(made));
  WARREN_TRY(git.ask({"update-ref", "refs/heads/" + branch, id, ""}));  // fails if the branch has appeared meanwhile
  return id;
}

}  // namespace warren
