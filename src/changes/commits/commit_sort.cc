// Which of an agent's changes its commits contain.
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/commits/commits.h"
#include "changes/git/git_log.h"
#include "changes/git/git_tree.h"
#include "changes/git/git_work_tree.h"
#include "changes/pinned/pinned_git.h"
#include "changes/review/patch.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

constexpr std::size_t kLogEntriesMax = 200;

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

// Where the two sides of a changed file are; nullopt for a side that it does not have.
struct Sides {
  std::optional<Where> gone;   // the removal of the old name
  std::optional<Where> there;  // what has the new name

  Where both() const {
    if (!gone || !there) return gone ? *gone : there.value_or(Where::kFiles);
    return *gone == *there ? *gone : Where::kBoth;
  }
};

// The change as an apply stores it.
AppliedChange as_brought(const TreeChange& change, Where where) {
  AppliedChange brought;
  brought.kind = change.kind;
  brought.path = change.path;
  brought.base_path = change.base_path;
  brought.type = change.node().mode & S_IFMT;
  if (!change.after) return brought;
  brought.upper = change.after->inode;
  if (where != Where::kCommits) return brought;  // the times of no file: it is a change of what was brought
  brought.size = change.after->size;
  brought.mtime = change.after->mtime;
  brought.ctime = change.after->ctime;
  return brought;
}

AppliedChange as_added(AppliedChange renamed) {
  renamed.kind = TreeChangeKind::kAdded;
  renamed.base_path.clear();
  return renamed;
}

// Of a rename, the commits may have one name only.
void add_renamed(const TreeChange& change, const Sides& sides, std::vector<AppliedChange>& all) {
  if (sides.gone == Where::kCommits && sides.there != Where::kFiles) {
    all.push_back(as_brought(change, sides.both()));
    return;
  }
  if (sides.there != Where::kFiles) {
    all.push_back(as_added(as_brought(change, *sides.there)));
  }
  if (sides.gone == Where::kFiles) return;
  AppliedChange old = as_brought(change, Where::kBoth);
  old.kind = sides.gone == Where::kCommits ? TreeChangeKind::kDeleted : TreeChangeKind::kModified;
  old.path = change.base_path;
  all.push_back(std::move(old));
}

// Sorts files first, then the directories by what is in them.
class Sorter {
 public:
  Sorter(const CommittedPaths& committed, std::unordered_set<std::string> dirty)
      : committed_(committed), dirty_(std::move(dirty)) {}

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

  // What is to be noted of the changes, by what list() has found. A directory whose rename is only partly in the
  // commits is left out, with everything below, and so is a file whose version in the commits the agent has not seen.
  // `list_below` lists what these have below a directory.
  using ListBelow = std::function<Result<std::vector<GitTreeEntry>>(const std::string& dir)>;
  Result<std::vector<AppliedChange>> list_brought(const std::vector<TreeChange>& changes,
                                                  const std::vector<Where>& where,
                                                  const std::unordered_set<std::string>& unseen,
                                                  const ListBelow& list_below) {
    std::vector<AppliedChange> all;
    std::unordered_set<std::string_view> left_out;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const TreeChange& change = changes[i];
      if (where[i] == Where::kFiles || is_below(change.path, left_out)) continue;
      if (unseen.contains(change.path) || unseen.contains(change.base_path)) continue;
      auto sides = by_change_.find(&change);
      if (change.kind != TreeChangeKind::kRenamed) {
        all.push_back(as_brought(change, where[i]));
      } else if (sides != by_change_.end()) {
        add_renamed(change, sides->second, all);
      } else if (new_below_.contains(change.path) && !other_below_.contains(change.path)) {
        all.push_back(as_added(as_brought(change, where[i])));
      } else if (halves_below_.contains(change.path) || WARREN_TRY(has_stayed(change, list_below))) {
        left_out.insert(change.path);
      } else {
        all.push_back(as_brought(change, where[i]));
      }
    }
    return all;
  }

 private:
  void add(const ChangedFile& file) {
    Sides sides;
    if (file.before && (!file.after || file.is_renamed())) sides.gone = where_removed(file.before->path);
    if (file.after) sides.there = where_written(file.after->path);
    Where where = sides.both();
    if (file.change != nullptr) by_change_[file.change] = sides;
    note(file, where == Where::kFiles ? files_below_ : committed_below_);
    if (where == Where::kBoth) note(file, both_below_);
    bool was_moved = !file.after && file.change != nullptr && is_written(file.change->path);
    if (was_moved) note_above(file.change->path, committed_below_);
    if (!file.is_renamed()) return;
    bool is_half = (sides.gone == Where::kFiles) != (sides.there == Where::kFiles);
    bool is_new = is_half && sides.gone == Where::kFiles;
    if (is_half) note(file, halves_below_);
    if (where == Where::kFiles) unmoved_.insert(file.before->path);
    note(file, is_new ? new_below_ : other_below_);
  }

  // Whether the commits still have a file of the directory under its old name. What git does not track is no such file.
  Result<bool> has_stayed(const TreeChange& dir, const ListBelow& list_below) const {
    if (!files_below_.contains(dir.path)) return false;
    std::vector<GitTreeEntry> entries = WARREN_TRY(list_below(dir.base_path));
    return std::any_of(entries.begin(), entries.end(),
                       [&](const GitTreeEntry& one) { return unmoved_.contains("/" + one.path); });
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

  // Whether the commits have a version there: of a file that was removed since, its directory was renamed in them.
  bool is_written(const std::string& path) const {
    auto found = committed_.find(path.substr(1));
    return found != committed_.end() && found->second.status != 'D';
  }

  static void note(const ChangedFile& file, std::unordered_set<std::string>& below) {
    for (const std::optional<ChangedFile::Side>* side : {&file.before, &file.after}) {
      if (*side) note_above((*side)->path, below);
    }
  }

  static void note_above(std::string_view path, std::unordered_set<std::string>& below) {
    std::string_view dir = directory_of(path);
    while (dir != "/" && below.insert(std::string(dir)).second) dir = directory_of(dir);
  }

  Where where_of(const TreeChange& change) const {
    auto known = by_change_.find(&change);
    if (known != by_change_.end()) return known->second.both();
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

  const CommittedPaths& committed_;
  std::unordered_set<std::string> dirty_;
  std::unordered_set<std::string> written_;  // "/src/a": where the session has a changed file
  std::unordered_map<const TreeChange*, Sides> by_change_;
  std::unordered_set<std::string> files_below_;      // directories with changes that are not in the commits
  std::unordered_set<std::string> committed_below_;  // directories with changes that are, perhaps in another version
  std::unordered_set<std::string> both_below_;       // those in another version
  std::unordered_set<std::string> halves_below_;     // those with renamed files of which the commits have one name
  std::unordered_set<std::string> new_below_;        // the new one, and not the removal of the old one
  std::unordered_set<std::string> other_below_;      // those with other renamed files
  std::unordered_set<std::string> unmoved_;          // old names of files whose rename is not in the commits
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
  Git git(overlay_.base_path);
  WARREN_TRY(git.use(git_dir_, work, work + "-index"));
  git.borrow_objects(quarantine_ + "/objects");
  Result<std::unordered_set<std::string>> found = list_unlike(git, head_);
  if (!found.ok() && found.error().code() == Code::kInvalid) return damaged(found.error().message());
  return found;
}

// False if it cannot be known here: then the change stays with the agent.
Result<bool> CommitImport::set_committed(TreeChange& change, const std::unordered_set<std::string>& seen) {
  bool is_file = change.before && change.before->is_file() && (!change.after || change.after->is_file());
  if (!is_file) return true;  // nothing of the base's would be overwritten unseen
  if (change.node().size > limits::kPatchFileBytes) return false;
  std::string name = change.path.substr(1);
  Captured content = WARREN_TRY(joined_.run({"cat-file", "--filters", head_ + ":" + name}));
  if (content.status != 0) return true;  // not in the commit under this name
  bool is_seen = seen.contains(name) || WARREN_TRY(contains_version(change, content.output));
  if (is_seen) change.committed = std::move(content.output);
  return true;
}

// Whether the agent's file has everything in which this version differs from that of the start: merging it into the
// file changes nothing. So it is after `git reset --hard`.
Result<bool> CommitImport::contains_version(const TreeChange& change, const std::string& newer) {
  if (start_.empty() || !change.after) return false;
  Captured first = WARREN_TRY(joined_.run({"cat-file", "--filters", start_ + ":" + change.path.substr(1)}));
  if (first.status != 0 || is_binary(newer)) return false;
  std::string own = WARREN_TRY(read_file(overlay_.merged, change.path));
  if (is_binary(own)) return false;
  Merged merged = merge3(first.output, own, newer);
  return merged.is_clean() && merged.text == own;
}

// Of these files, those whose version in the agent's HEAD came there together with the file, or was committed by the
// agent itself: it has seen that version. By HEAD's log, as in find_arrival. After a reset to a newer commit, for
// example, it has not. What a branch of `warren merge` had before its own log begins, that has put into the files.
Result<std::unordered_set<std::string>> CommitImport::list_seen_in_head(std::unordered_set<std::string> names) {
  std::unordered_set<std::string> seen;
  if (names.empty()) return seen;
  std::vector<LogEntry> log =
      read_git_log(overlay_.merged, branch_.empty() ? "/.git/logs/HEAD" : "/.git/logs/refs/heads/" + branch_);
  std::vector<LogEntry> of_base;  // where the state of git is not pinned, the log shows what the user does
  if (!WARREN_TRY(find_pinned_git(overlay_))) of_base = read_git_log(overlay_.base, "/.git/logs/HEAD");
  bool is_whole = log.size() <= kLogEntriesMax;
  if (!is_whole) log.erase(log.begin(), log.end() - kLogEntriesMax);
  std::string at = head_;
  bool is_back = false;  // it was reset to what it had been before: how it got there is further up
  for (auto entry = log.rbegin(); entry != log.rend() && !names.empty(); ++entry) {
    if (is_back && entry->to != at) continue;
    is_whole = is_whole && entry->to == at;
    if (entry->to != at) break;
    is_back = entry->message.starts_with("reset") &&
              WARREN_TRY(joined_.succeeds({"merge-base", "--is-ancestor", entry->to, entry->from}));
    if (is_back) continue;
    at = entry->from;
    if (entry->message.starts_with("Branch: renamed")) continue;  // two entries, with no commit in between
    bool is_first = at.find_first_not_of('0') == at.npos;
    std::string from = is_first ? WARREN_TRY(find_empty_tree(joined_)) : at;
    Result<std::unordered_set<std::string>> changed = list_differing(joined_, from, entry->to);
    is_whole = is_whole && changed.ok();
    if (!changed.ok()) break;  // a commit that is gone
    bool is_known = (writes_files(*entry) || makes_commit(*entry)) &&
                    std::find(of_base.begin(), of_base.end(), *entry) == of_base.end();
    for (const std::string& name : *changed) {
      if (names.erase(name) > 0 && is_known) seen.insert(name);
    }
  }
  if (!branch_.empty() && is_whole && !is_back) seen.merge(names);
  return seen;
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

Result<CommitImport::Sorted> CommitImport::sort(std::vector<TreeChange>& changes) {
  if (head_.empty()) return Sorted{.where = std::vector<Where>(changes.size(), Where::kFiles), .brought = {}};
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
  Sorter sorter(committed, std::move(dirty));
  sorter.add_all(files);
  std::vector<Where> all = sorter.list(changes);
  std::unordered_set<std::string> again;  // changed again after the commits
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != Where::kBoth) continue;
    for (const std::string* path : {&changes[i].path, &changes[i].base_path}) {
      if (!path->empty() && committed.contains(path->substr(1))) again.insert(path->substr(1));
    }
  }
  std::unordered_set<std::string> seen = WARREN_TRY(list_seen_in_head(again));
  std::unordered_set<std::string> unseen;
  for (const std::string& name : again) {
    if (!seen.contains(name)) unseen.insert("/" + name);
  }
  // If the commits are merged, it is a change to files, and to the version in the commits.
  bool are_in_base = is_merged_ || is_head_squashed_;
  for (std::size_t i = 0; are_in_base && i < all.size(); ++i) {
    if (all[i] == Where::kBoth && WARREN_TRY(set_committed(changes[i], seen))) all[i] = Where::kFiles;
  }
  auto list_below = [&](const std::string& dir) { return list_git_tree(joined_, head_, dir.substr(1)); };
  std::vector<AppliedChange> brought = WARREN_TRY(sorter.list_brought(changes, all, unseen, list_below));
  return Sorted{.where = std::move(all), .brought = std::move(brought)};
}

}  // namespace warren
