// Which of an agent's changes its commits contain.
#include <unordered_map>
#include <unordered_set>

#include "base/limits.h"
#include "base/path.h"
#include "changes/commits/commits.h"
#include "changes/git/git_work_tree.h"
#include "changes/review/patch.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

using Where = CommitImport::Where;
// By whose commits a path in the agent's HEAD differs.
enum class Whose {
  kAgents,  // since the agent started
  kUsers,   // a merge brings another version than the base's HEAD has
};
struct CommittedPath {
  char status = 'M';  // A M D T as git's --name-status
  Whose whose = Whose::kAgents;
};
using CommittedPaths = std::unordered_map<std::string, CommittedPath>;  // "src/a"

// Those that are there already stay.
void add_name_status(std::string_view text, Whose whose, CommittedPaths& paths) {
  std::vector<std::string> parts = split_at_nul(text);
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (!parts[i].empty()) paths.emplace(parts[i + 1], CommittedPath{parts[i][0], whose});
  }
}

Where both_of(std::optional<Where> a, std::optional<Where> b) {
  if (!a || !b) return a ? *a : b.value_or(Where::kFiles);
  return *a == *b ? *a : Where::kBoth;
}

// Sorts files first, then the directories by what is in them.
class Sorter {
 public:
  Sorter(CommittedPaths committed, std::unordered_set<std::string> dirty)
      : committed_(std::move(committed)), dirty_(std::move(dirty)) {}

  void add_all(const std::vector<ChangedFile>& files) {
    for (const ChangedFile& file : files) {
      if (file.after) written_.insert(file.after->path);
    }
    for (const ChangedFile& file : files) add(file);
  }

  std::vector<Where> list(const std::vector<TreeChange>& changes) {
    std::vector<Where> all;
    std::unordered_set<std::string_view> moved;  // renamed directories that are in the commits
    for (const TreeChange& change : changes) {
      Where where = where_of(change);
      bool is_moved = change.node().is_directory() && change.kind == TreeChangeKind::kRenamed && where != Where::kFiles;
      if (is_moved) moved.insert(change.path);
      all.push_back(where);
    }
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (all[i] == Where::kFiles && is_below(changes[i].path, moved)) all[i] = Where::kBoth;
    }
    return all;
  }

 private:
  void add(const ChangedFile& file) {
    std::optional<Where> gone;
    std::optional<Where> there;
    if (file.before && (!file.after || file.is_renamed())) gone = where_removed(file.before->path);
    if (file.after) there = where_written(file.after->path);
    Where where = both_of(gone, there);
    if (file.change != nullptr) by_change_[file.change] = where;
    note(file, where == Where::kFiles ? files_below_ : committed_below_);
    if (where == Where::kBoth) note(file, both_below_);
  }

  Where where_removed(const std::string& path) const {
    auto found = committed_.find(path.substr(1));
    if (found == committed_.end()) return Where::kFiles;
    if (found->second.status == 'D') return Where::kCommits;
    // Something else has the name now, as a link in place of a file, and the commits may have that.
    return written_.contains(path) ? where_written(path) : not_as_committed(found->second);
  }

  Where where_written(const std::string& path) const {
    auto found = committed_.find(path.substr(1));
    if (found == committed_.end()) return Where::kFiles;
    bool is_other = found->second.status == 'D' || dirty_.contains(found->first);
    return is_other ? not_as_committed(found->second) : Where::kCommits;
  }

  static Where not_as_committed(const CommittedPath& path) {
    return path.whose == Whose::kAgents ? Where::kBoth : Where::kFiles;
  }

  static void note(const ChangedFile& file, std::unordered_set<std::string>& below) {
    for (const std::optional<ChangedFile::Side>* side : {&file.before, &file.after}) {
      if (!*side) continue;
      std::string_view dir = directory_of((*side)->path);
      while (dir != "/" && below.insert(std::string(dir)).second) dir = directory_of(dir);
    }
  }

  Where where_of(const TreeChange& change) const {
    auto known = by_change_.find(&change);
    if (known != by_change_.end()) return known->second;
    if (!change.node().is_directory() || change.kind == TreeChangeKind::kModified) return Where::kFiles;
    if (!committed_below_.contains(change.path)) return Where::kFiles;
    bool is_mixed = change.kind == TreeChangeKind::kRenamed && files_below_.contains(change.path);
    bool is_changed_again = change.kind != TreeChangeKind::kAdded && both_below_.contains(change.path);
    return is_mixed || is_changed_again ? Where::kBoth : Where::kCommits;
  }

  static bool is_below(std::string_view path, const std::unordered_set<std::string_view>& dirs) {
    if (dirs.empty()) return false;
    for (path = directory_of(path); path != "/"; path = directory_of(path)) {
      if (dirs.contains(path)) return true;
    }
    return false;
  }

  CommittedPaths committed_;
  std::unordered_set<std::string> dirty_;
  std::unordered_set<std::string> written_;  // "/src/a": where the session has a changed file
  std::unordered_map<const TreeChange*, Where> by_change_;
  std::unordered_set<std::string> files_below_;      // directories with changes that are not in the commits
  std::unordered_set<std::string> committed_below_;  // directories with changes that are, perhaps in another version
  std::unordered_set<std::string> both_below_;       // those in another version
};

// Writes the files that the commits contain, as the agent has them now.
Status write_committed(const AgentOverlay& overlay, const std::string& work, const CommittedPaths& committed,
                       const std::vector<ChangedFile>& files) {
  auto host = WARREN_TRY(HostTree::open(work));
  for (const ChangedFile& file : files) {
    auto found = file.after ? committed.find(file.after->path.substr(1)) : committed.end();
    if (found == committed.end() || found->second.status == 'D') continue;
    WARREN_TRY(write_for_git(overlay, *file.after, *host, found->first, std::nullopt));
  }
  return Ok{};
}

}  // namespace

// Of the files in a temporary work tree.
Result<std::unordered_set<std::string>> CommitImport::list_unlike_head(const std::string& work) {
  Git git(work);
  git.use(git_dir_, work, work + "-index");
  git.borrow_objects(quarantine_ + "/objects");
  Result<std::unordered_set<std::string>> found = list_unlike(git, head_);
  if (!found.ok() && found.error().code() == Code::kInvalid) return damaged(found.error().message());
  return found;
}

// False if it cannot be known here: then the change stays with the agent.
Result<bool> CommitImport::set_committed(TreeChange& change) {
  bool is_file = change.before && change.before->is_file() && (!change.after || change.after->is_file());
  if (!is_file) return true;  // nothing of the base's would be overwritten unseen
  if (change.node().size > limits::kPatchFileBytes) return false;
  Captured content = WARREN_TRY(joined_.run({"cat-file", "--filters", head_ + ":" + change.path.substr(1)}));
  if (content.status != 0) return true;  // not in the commit under this name
  change.committed = std::move(content.output);
  return true;
}

// Where only the base's HEAD has moved on, the session has what its own HEAD has, and a merge leaves the base's. But
// what the session has applied itself, as a file, it may have taken back, and what the user has not committed is not in
// HEAD.
Result<std::unordered_set<std::string>> CommitImport::list_taken_back(const std::vector<TreeChange>& changes,
                                                                      const std::unordered_set<std::string>& of_base) {
  std::unordered_set<std::string> applied = WARREN_TRY(list_applied());
  std::unordered_set<std::string> found;
  std::vector<std::string> others;
  for (const TreeChange& change : changes) {
    std::string name = change.path.substr(1);
    if (!of_base.contains(name)) continue;
    if (applied.contains(change.path)) found.insert(std::move(name));
    else others.push_back(std::move(name));
  }
  std::unordered_set<std::string> uncommitted = WARREN_TRY(list_uncommitted(others));
  found.merge(uncommitted);
  return found;
}

Result<std::vector<Where>> CommitImport::sort(std::vector<TreeChange>& changes) {
  if (head_.empty()) return std::vector<Where>(changes.size(), Where::kFiles);
  CommittedPaths committed;
  for (const std::string& from : {from_, std::string("HEAD")}) {  // joined_ is the base's repository: its HEAD
    Captured listed = WARREN_TRY(joined_.run({"diff-tree", "-r", "-z", "--name-status", "--no-renames", from, head_}));
    if (listed.status == 0) add_name_status(listed.output, from == from_ ? Whose::kAgents : Whose::kUsers, committed);
    else if (from == from_) return damaged(listed);
  }
  std::unordered_set<std::string> to_merge = WARREN_TRY(list_to_merge());
  std::unordered_set<std::string> of_base;
  for (const auto& [name, one] : committed) {
    if (one.whose == Whose::kUsers && !to_merge.contains(name)) of_base.insert(name);
  }
  std::unordered_set<std::string> taken_back = WARREN_TRY(list_taken_back(changes, of_base));
  std::erase_if(committed, [&](const auto& one) { return taken_back.contains(one.first); });
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(overlay_, changes));
  std::string work = scratch_.path() + "/work";
  WARREN_TRY(make_host_dirs(work, 0700));
  WARREN_TRY(write_committed(overlay_, work, committed, files));
  std::unordered_set<std::string> dirty = WARREN_TRY(list_unlike_head(work));
  Sorter sorter(std::move(committed), std::move(dirty));
  sorter.add_all(files);
  std::vector<Where> all = sorter.list(changes);
  if (!is_merged_ && !is_head_squashed_) return all;
  // What was changed again after commits that are merged is a change to files, and to the version in the commits.
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == Where::kBoth && WARREN_TRY(set_committed(changes[i]))) all[i] = Where::kFiles;
  }
  return all;
}

}  // namespace warren
