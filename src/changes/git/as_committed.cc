#include "changes/git/as_committed.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/ascii.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/git/base_heads.h"
#include "changes/git/git.h"
#include "changes/git/pinned_git.h"
#include "changes/git/quarantine.h"
#include "changes/git/raw_diff.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::size_t kFilesToCompare = 1000;
constexpr std::size_t kPathsAtOnce = 200;  // in one command

using Paths = std::unordered_set<std::string>;  // "/src/a"

struct CommittedFile {
  std::string mode;
  std::string id;
};

class Comparison {
 public:
  Comparison(const AgentOverlay& overlay, std::vector<TreeChange>& changes)
      : overlay_(overlay), changes_(changes), git_(overlay.base_path) {
    git_.set_limit(limits::kGitTime);
  }

  Status run() {
    std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
    if (!pinned || pinned->head.empty()) return Ok{};
    std::optional<GitHeads> base = WARREN_TRY(find_base_heads(overlay_));
    std::optional<GitHeads> agent = WARREN_TRY(find_git_heads(overlay_.merged, "/.git"));
    if (!base || !agent || base->commit.empty() || agent->commit.empty()) return Ok{};
    std::optional<Paths> newer = WARREN_TRY(list_between(pinned->head, base->commit));
    if (!newer || !has_candidates(*newer)) return Ok{};
    std::optional<ScratchDir> borrowed = WARREN_TRY(borrow_commit(overlay_, changes_, agent->commit, git_));
    Captured common = WARREN_TRY(git_.run({"merge-base", base->commit, agent->commit}));
    std::optional<Paths> pending =
        WARREN_TRY(list_between(std::string(trimmed(common.output, kWhitespace)), agent->commit));
    if (common.status != 0 || !pending) return Ok{};  // not related, or damaged
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (is_candidate(changes_[i], *newer) && !pending->contains(changes_[i].path)) candidates.push_back(i);
    }
    if (candidates.size() > kFilesToCompare) return Ok{};
    WARREN_TRY(read_committed(agent->commit, candidates));
    for (std::size_t i : candidates) {
      if (WARREN_TRY(is_as_committed(changes_[i]))) left_out_.insert(changes_[i].path);
    }
    leave_out();
    return Ok{};
  }

 private:
  static bool is_candidate(const TreeChange& change, const Paths& newer) {
    bool is_plain = change.kind != TreeChangeKind::kRenamed && !change.node().is_directory();
    return is_plain && change.place == change.path && newer.contains(change.path);
  }

  bool has_candidates(const Paths& newer) const {
    return std::any_of(changes_.begin(), changes_.end(),
                       [&](const TreeChange& change) { return is_candidate(change, newer); });
  }

  // nullopt if git does not have one of them.
  Result<std::optional<Paths>> list_between(const std::string& from, const std::string& to) {
    if (from == to) return std::optional(Paths());
    Captured listed = WARREN_TRY(git_.run({"diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to}));
    if (listed.status != 0) return std::optional<Paths>();
    Paths paths;
    for (const std::string& name : split_at_nul(listed.output)) paths.insert("/" + name);
    return std::optional(std::move(paths));
  }

  // Of git's ls-tree -z: "100644 blob ID\tPATH".
  Status read_committed(const std::string& commit, const std::vector<std::size_t>& candidates) {
    git_.set_variable("GIT_LITERAL_PATHSPECS", "1");
    for (std::size_t at = 0; at < candidates.size(); at += kPathsAtOnce) {
      std::vector<std::string> words{"ls-tree", "-z", "--full-tree", commit, "--"};
      for (std::size_t i = at; i < std::min(at + kPathsAtOnce, candidates.size()); ++i)
        words.push_back(changes_[candidates[i]].path.substr(1));
      std::string listed = WARREN_TRY(git_.ask(words));
      for (std::string_view line : split_at_nul(listed)) {
        std::size_t tab = line.find('\t');
        std::size_t space = line.find(' ');
        if (tab == line.npos || space > tab) continue;
        std::size_t id = line.rfind(' ', tab) + 1;
        committed_["/" + std::string(line.substr(tab + 1))] = {std::string(line.substr(0, space)),
                                                               std::string(line.substr(id, tab - id))};
      }
    }
    return Ok{};
  }

  Result<bool> is_as_committed(const TreeChange& change) {
    auto found = committed_.find(change.path);
    if (found == committed_.end() || !change.after) return found == committed_.end() && !change.after;
    const CommittedFile& file = found->second;
    if (change.after->is_symlink()) {
      std::string target = WARREN_TRY(read_link(overlay_.merged, change.path));
      std::string hashed = WARREN_TRY(git_.ask_with({"hash-object", "--stdin"}, target));
      return file.mode == kGitLinkMode && hashed == file.id;
    }
    bool may_be = change.after->is_file() && change.after->size <= limits::kPatchFileBytes;
    bool is_program = (change.after->mode & S_IXUSR) != 0;
    if (!may_be || file.mode == kGitLinkMode || is_program != (file.mode == kGitProgramMode)) return false;
    std::string content = WARREN_TRY(read_file(overlay_.merged, change.path));
    // Git hashes, so that content filters count.
    std::string hashed =
        WARREN_TRY(git_.ask_with({"hash-object", "--stdin", "--path", change.path.substr(1)}, content));
    return hashed == file.id;
  }

  // With new directories that were only there for them.
  void leave_out() {
    if (left_out_.empty()) return;
    std::unordered_set<std::string_view> emptied;
    for (const std::string& path : left_out_) {
      for (std::string_view at = split_parent(path).parent; at != "/"; at = split_parent(at).parent) emptied.insert(at);
    }
    for (const TreeChange& change : changes_) {
      if (left_out_.contains(change.path) || emptied.contains(change.path)) continue;
      for (std::string_view at = change.path; at != "/"; at = split_parent(at).parent) emptied.erase(at);
    }
    std::erase_if(changes_, [&](const TreeChange& change) {
      bool is_emptied = change.kind == TreeChangeKind::kAdded && emptied.contains(change.path);
      return is_emptied || left_out_.contains(change.path);
    });
  }

  const AgentOverlay& overlay_;
  std::vector<TreeChange>& changes_;
  Git git_;
  std::unordered_map<std::string, CommittedFile> committed_;
  Paths left_out_;
};

}  // namespace

void leave_out_as_committed(const AgentOverlay& overlay, std::vector<TreeChange>& changes) {
  if (changes.empty()) return;
  Comparison(overlay, changes).run().ignore("then they are changes, and conflicts where the base has changed them");
}

}  // namespace warren
