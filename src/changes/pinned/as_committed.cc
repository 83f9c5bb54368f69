#include "changes/pinned/as_committed.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/ascii.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "changes/git/base_heads.h"
#include "changes/git/git.h"
#include "changes/git/git_tree.h"
#include "changes/git/git_work_tree.h"
#include "changes/git/quarantine.h"
#include "changes/git/work_tree_ids.h"
#include "changes/left_out.h"
#include "changes/pinned/frozen_tree.h"
#include "changes/pinned/pinned_git.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

constexpr std::uint64_t kBytesToCompare = std::uint64_t{256} << 20;

using Paths = std::unordered_set<std::string>;                   // "/src/a"
using Committed = std::unordered_map<std::string, std::string>;  // the ids of files by path

class Comparison {
 public:
  Comparison(const AgentOverlay& overlay, std::vector<TreeChange>& changes)
      : overlay_(overlay), changes_(changes), git_(overlay.base_path) {}

  Status run() {
    std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
    if (!pinned || pinned->head.empty()) return Ok{};
    Result<std::optional<GitHeads>> base = find_base_heads(overlay_);
    if (!base.ok() || !*base || (*base)->commit.empty() || (*base)->commit == pinned->head) return Ok{};
    Result<std::optional<Paths>> newer = list_between(pinned->head, (*base)->commit);
    if (!newer.ok() || !*newer) return Ok{};  // there is no git, or the base does not have the commit any more
    base_head_ = (*base)->commit;
    Status related = relate(*pinned, **newer);
    find_replaced();
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (is_candidate(changes_[i], **newer)) candidates.push_back(i);
    }
    if (candidates.empty()) return Ok{};
    Status compared = related.ok() ? compare(*pinned, candidates) : std::move(related);
    if (!compared.ok()) return set_back_all(candidates, *pinned);
    if (!left_out_.empty()) leave_out(changes_, [&](const TreeChange& one) { return left_out_.contains(one.path); });
    return Ok{};
  }

 private:
  // Finds the last commit that both have. What the base has changed since is newer as well: it may be back at the
  // versions of the start, after the agent has merged others.
  Status relate(const PinnedGit& pinned, Paths& newer) {
    std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(overlay_.merged, "/.git"));
    agent_ = heads ? heads->commit : "";
    if (agent_.empty()) return Error(Code::kCorrupt, "the agent's repository has no HEAD");
    std::optional<ScratchDir> borrowed = WARREN_TRY(borrow_commit(overlay_, changes_, agent_, git_));
    if (borrowed) borrowed_.emplace(*std::move(borrowed));
    Captured common = WARREN_TRY(git_.run({"merge-base", base_head_, agent_}));
    constexpr int kNotRelated = 1;
    if (common.status == kNotRelated) return Ok{};
    if (common.status != 0) return Error(Code::kCorrupt, "the agent's commits are incomplete");
    common_ = trimmed(common.output, kWhitespace);
    if (common_ == pinned.head) return Ok{};
    std::optional<Paths> since = WARREN_TRY(list_between(common_, base_head_));
    if (since) newer.merge(*since);
    return Ok{};
  }

  Status compare(const PinnedGit& pinned, std::vector<std::size_t> candidates) {
    if (common_.empty()) return Ok{};
    for (std::size_t i : candidates) changes_[i].common = common_;
    std::optional<Paths> pending = WARREN_TRY(list_between(common_, agent_));
    std::optional<Paths> own = WARREN_TRY(list_between(pinned.head, agent_));
    if (!pending || !own) return Error(Code::kCorrupt, "the agent's commits are incomplete");
    std::erase_if(candidates, [&](std::size_t i) { return pending->contains(changes_[i].path); });
    Committed committed = WARREN_TRY(list_committed(agent_, candidates));
    Paths dirty = WARREN_TRY(list_dirty(agent_, candidates));
    Paths of_user = WARREN_TRY(list_committed_by_user(pinned, candidates));
    for (std::size_t i : candidates) {
      TreeChange& change = changes_[i];
      bool is_in_head = committed.contains(change.path);
      bool is_as_in_head = change.after ? is_in_head && !dirty.contains(change.path) : !is_in_head;
      if (!is_as_in_head) continue;
      bool is_known = own->contains(change.path) || is_never_seen(change) || WARREN_TRY(was_frozen(change));
      is_known = is_known || of_user.contains(change.path) || WARREN_TRY(is_as_seen_first(change));
      if (is_known && !is_replaced(change) && !WARREN_TRY(has_own_metadata(change))) left_out_.insert(change.path);
      if (!is_known) change.is_set_back = !WARREN_TRY(was_known(change, pinned));
    }
    return Ok{};
  }

  Status set_back_all(const std::vector<std::size_t>& candidates, const PinnedGit& pinned) {
    for (std::size_t i : candidates) changes_[i].is_set_back = !WARREN_TRY(was_known(changes_[i], pinned));
    return Ok{};
  }

  // Something of another type, or from elsewhere, took the name of a node of the base: that decides about both, also if
  // HEAD has nothing of that name.
  void find_replaced() {
    Paths deleted;
    for (const TreeChange& change : changes_) {
      if (!change.after) deleted.insert(change.path);
    }
    for (const TreeChange& change : changes_) {
      if (change.after && deleted.contains(change.path)) replaced_.insert(change.path);
    }
  }

  bool is_replaced(const TreeChange& change) const {
    if (change.after || replaced_.empty()) return false;
    for (std::string_view path = change.path; path != "/"; path = split_parent(path).parent) {
      if (replaced_.contains(std::string(path))) return true;
    }
    return false;
  }

  static bool is_candidate(const TreeChange& change, const Paths& newer) {
    bool is_plain = change.kind != TreeChangeKind::kRenamed && !change.node().is_directory();
    bool is_there = change.place == change.path || (change.place.empty() && change.kind == TreeChangeKind::kAdded);
    return is_plain && is_there && newer.contains(change.path);
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

  // Those of them that the commit has, and not as directories.
  Result<Committed> list_committed(const std::string& commit, const std::vector<std::size_t>& candidates) {
    std::vector<std::string> names;
    for (std::size_t i : candidates) names.push_back(changes_[i].path.substr(1));
    std::vector<GitTreeEntry> entries = WARREN_TRY(find_in_commit(git_, commit, names));
    Committed found;
    for (GitTreeEntry& one : entries) {
      if (one.mode != kGitTreeMode) found.emplace("/" + one.path, std::move(one.id));
    }
    return found;
  }

  // Which of them the session has otherwise than the commit. Git compares, so that content filters count.
  Result<Paths> list_dirty(const std::string& commit, const std::vector<std::size_t>& candidates) {
    ScratchDir scratch = WARREN_TRY(ScratchDir::make("compared"));
    std::string work = scratch.path() + "/work";
    WARREN_TRY(make_host_dirs(work, 0700));
    auto host = WARREN_TRY(HostTree::open(work));
    Paths dirty;
    std::uint64_t bytes = 0;
    for (std::size_t i : candidates) {
      const TreeChange& change = changes_[i];
      if (!change.after) continue;
      bytes += change.after->size;
      bool may_be = change.after->is_symlink() || (change.after->is_file() && bytes <= kBytesToCompare);
      if (!may_be) return Error(Code::kTooLarge, "there is too much to compare");
      WARREN_TRY(write_for_git(overlay_, {.path = change.path, .node = *change.after}, *host, change.path.substr(1),
                               std::nullopt));
    }
    std::string git_dir = WARREN_TRY(git_.ask({"rev-parse", "--absolute-git-dir"}));
    Git git = git_;
    WARREN_TRY(git.use(git_dir, work, scratch.path() + "/index"));
    std::unordered_set<std::string> unlike = WARREN_TRY(list_unlike(git, commit));
    for (const std::string& name : unlike) dirty.insert("/" + name);
    return dirty;
  }

  // Whether the base's version came after the agent's, or the base deleted the file: in a directory that git made
  // again, or that both have made.
  static bool is_never_seen(const TreeChange& change) {
    if (change.is_unseen || !change.before) return true;
    if (change.seen) return false;
    return is_surely_older(change.after ? change.after->ctime : change.known_at, change.before->ctime);
  }

  // Whether the base's newer version did not show.
  Result<bool> was_frozen(const TreeChange& change) {
    auto unit = WARREN_TRY(overlay_.upper.begin(UnitAccess::kRead));
    std::optional<Cover> cover = WARREN_TRY(overlay_.upper.find_cover(change.place));
    std::optional<Attributes> seen = cover ? cover->seen : change.seen;
    return (cover && !seen) || (seen && is_frozen_number(seen->inode));
  }

  // Whether the mode, the owner or an extended attribute differs from what the agent saw first. Git compares only
  // whether the owner may execute the file.
  Result<bool> has_own_metadata(const TreeChange& change) {
    if (!change.after) return false;
    auto unit = WARREN_TRY(overlay_.upper.begin(UnitAccess::kRead));
    std::optional<Cover> cover = WARREN_TRY(overlay_.upper.find_cover(change.place));
    // A node that git has made anew has the mode of the umask, and no attributes: nobody has set that.
    bool is_frozen = change.seen && is_frozen_number(change.seen->inode);
    if (cover && !is_frozen) return false;
    std::optional<Attributes> seen = cover ? cover->seen : change.seen;
    if (seen && is_of_type(*seen, *change.after) && !is_as_git_makes_it(*change.after, *seen)) return true;
    // The row has no extended attributes. A copy has those of the base's node, and a frozen one none.
    XattrMap first;
    bool is_copy = seen && change.before && !is_frozen_number(seen->inode);
    if (is_copy) first = WARREN_TRY(read_xattrs(overlay_.base, change.before->inode));
    XattrMap now = WARREN_TRY(read_xattrs(overlay_.upper.fs(), change.after->inode));
    return now != first;
  }

  static bool is_of_type(const Attributes& a, const Attributes& b) { return ((a.mode ^ b.mode) & S_IFMT) == 0; }

  // Git makes a file executable for those who may read it, and takes that from all.
  static bool is_as_git_makes_it(const Attributes& file, const Attributes& seen) {
    if (file.owner != seen.owner) return false;
    if (file.is_symlink() || file.mode == seen.mode) return true;
    bool is_program = (file.mode & S_IXUSR) != 0;
    bool was_program = (seen.mode & S_IXUSR) != 0;
    if (is_program == was_program) return false;
    std::uint32_t made = is_program ? seen.mode | ((seen.mode & 0444U) >> 2) : seen.mode & ~0111U;
    return file.mode == made;
  }

  // Whether the agent has it as it first saw it: git has only written it again.
  Result<bool> is_as_seen_first(const TreeChange& change) {
    if (!change.after || !change.after->is_file()) return false;
    auto unit = WARREN_TRY(overlay_.upper.begin(UnitAccess::kRead));
    std::optional<std::string> first = WARREN_TRY(overlay_.upper.find_ancestor(change.after->inode));
    if (!first || first->size() != change.after->size) return false;
    std::string content = WARREN_TRY(read_file(overlay_.merged, change.path));
    return content == *first;
  }

  // The user's uncommitted work of the start that the user has committed since, if the agent has commits of its own:
  // git put it aside in the session (`stash`, `checkout`, `clean`), and they do not contain it.
  Result<Paths> list_committed_by_user(const PinnedGit& pinned, const std::vector<std::size_t>& candidates) {
    Paths found;
    if (agent_ == pinned.head) return found;
    std::vector<std::size_t> of_start;
    std::vector<std::string> names;
    for (std::size_t i : candidates) {
      const TreeChange& change = changes_[i];
      bool is_of_start = change.before && is_surely_older(change.before->ctime, pinned.begun);
      if (!is_of_start || WARREN_TRY(was_applied(change))) continue;
      of_start.push_back(i);
      names.push_back(change.path.substr(1));
    }
    if (names.empty()) return found;
    auto tree = WARREN_TRY(HostTree::open(overlay_.base_path));
    std::unordered_map<std::string, std::string> ids = WARREN_TRY(hash_work_tree(git_, *tree, names));
    Committed committed = WARREN_TRY(list_committed(base_head_, of_start));
    for (const auto& [name, id] : ids) {
      auto in_head = committed.find("/" + name);
      if (in_head != committed.end() && in_head->second == id) found.insert(in_head->first);
    }
    return found;
  }

  Result<bool> was_applied(const TreeChange& change) {
    if (!applied_) {
      auto unit = WARREN_TRY(overlay_.upper.begin(UnitAccess::kRead));
      std::vector<std::string> paths = WARREN_TRY(list_applied_paths(overlay_.upper));
      applied_.emplace(paths.begin(), paths.end());
    }
    return applied_->contains(change.path);
  }

  // Whether the agent had the base's version before it was committed.
  Result<bool> was_known(const TreeChange& change, const PinnedGit& pinned) {
    if (change.before && is_surely_older(change.before->ctime, pinned.begun)) return true;
    return was_applied(change);
  }

  const AgentOverlay& overlay_;
  std::vector<TreeChange>& changes_;
  Git git_;
  std::optional<ScratchDir> borrowed_;  // with the agent's objects
  std::string agent_;                   // its HEAD
  std::string base_head_;
  std::string common_;  // "" if the base's HEAD is not related to it
  Paths replaced_;      // names of the base that another node of the agent has
  Paths left_out_;
  std::optional<Paths> applied_;
};

}  // namespace

Result<bool> has_version_of_start(const AgentOverlay& overlay, const std::string& base_path) {
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay));
  if (!pinned || pinned->head.empty()) return false;
  Git git(overlay.base_path);
  std::string name = base_path.substr(1);
  Captured committed = WARREN_TRY(git.run({"rev-parse", "--verify", "--quiet", pinned->head + ":" + name}));
  if (committed.status != 0) return false;
  std::string content = WARREN_TRY(read_file(overlay.base, base_path, {.size_bytes_max = limits::kPatchFileBytes}));
  std::string hashed = WARREN_TRY(git.ask_with({"hash-object", "--stdin", "--path", name}, content));
  return hashed == trimmed(committed.output, kWhitespace);
}

Status leave_out_as_committed(const AgentOverlay& overlay, std::vector<TreeChange>& changes) {
  return changes.empty() ? Status(Ok{}) : Comparison(overlay, changes).run();
}

}  // namespace warren
