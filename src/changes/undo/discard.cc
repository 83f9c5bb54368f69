#include "changes/undo/discard.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "agent/record/audit_trail.h"
#include "base/below.h"
#include "base/path.h"
#include "changes/compare.h"
#include "changes/git/git_folder.h"
#include "changes/pinned/frozen_tree.h"
#include "changes/pinned/git_state.h"
#include "changes/pinned/linked_worktree.h"
#include "changes/pinned/merged_work.h"
#include "changes/pinned/pinned_git.h"
#include "changes/selection.h"
#include "changes/upper/link_counts.h"
#include "changes/upper/replace_origin.h"
#include "changes/upper/upper_edit.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

class Discarder {
 public:
  Discarder(const AgentOverlay& overlay, const std::vector<TreeChange>& all, const Selection& chosen,
            const UpperTree& tree, TreeFinder& base, InUse in_use)
      : overlay_(overlay),
        all_(all),
        chosen_(chosen),
        tree_(tree),
        base_(base),
        in_use_(in_use),
        edit_(overlay, tree, base) {
    dir_of_.emplace("/", "/");
    for (const UpperNode& node : tree.nodes()) {
      if (node.node.is_directory()) dirs_.push_back(node.path);
      const std::string* counterpart = node.node.is_directory() ? node.counterpart() : nullptr;
      if (counterpart != nullptr) dir_of_.emplace(*counterpart, node.path);
    }
    std::sort(dirs_.begin(), dirs_.end());
  }

  Status run(const ChangeFilter& filter) {
    WARREN_TRY(edit_.settle_moves(in_use_));
    WARREN_TRY(drop_equal(filter));
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (chosen_.has(i)) continue;
      if (all_[i].after && all_[i].after->is_directory()) edit_.keep_dir(all_[i].path);
      if (all_[i].kind == TreeChangeKind::kRenamed) still_elsewhere_.emplace(all_[i].base_path, i);
    }
    // Bottom up: a directory is removed once it is empty.
    for (std::size_t i = all_.size(); i-- > 0;) {
      if (chosen_.has(i) && all_[i].after) WARREN_TRY(drop_node(all_[i]));
    }
    // Top down: a directory shows again before its content does.
    for (const Name& name : names_to_restore()) WARREN_TRY(restore_name(name));
    for (const UpperNode* node : lost_places_) WARREN_TRY(detach_other_names(*node));
    WARREN_TRY(hide_moved());
    return edit_.tidy(in_use_);
  }

 private:
  // Copies that equal the base are not changes, but would hide later changes of the base. Those that an apply has left
  // for their users stay while there are any.
  Status drop_equal(const ChangeFilter& filter) {
    std::unordered_map<Inode, bool> keeps;  // a node may have thousands of names
    for (const UpperNode& node : tree_.nodes()) {
      if (node.node.is_directory()) continue;
      bool goes_with_dir = is_in_dropped_dir(node.path);
      if (!goes_with_dir && filter && !filter(node.path)) continue;
      if (!goes_with_dir && node.is_untouched() && in_use_ == InUse::kYes) continue;
      if (!chosen_.with_path(node.path).empty()) continue;
      auto [known, is_first] = keeps.try_emplace(node.node.inode, false);
      if (is_first) known->second = keeps_a_name(node, filter);
      if (known->second && !goes_with_dir) continue;
      if (known->second && node.origin != nullptr) lost_places_.push_back(&node);
      WARREN_TRY(uncover_above(node));
      WARREN_TRY(edit_.remove(node.path));
    }
    for (const UpperGap& gap : tree_.gaps()) {
      bool is_wanted = tree_.is_only_hidden(gap) && (!filter || filter(gap.path));
      if (is_wanted) WARREN_TRY(edit_.remove_whiteout(gap.path));
    }
    return Ok{};
  }

  // In a new or renamed directory that is dropped nothing stays, or it could not be removed.
  bool is_in_dropped_dir(std::string_view path) const {
    for (std::string_view at = split_parent(path).parent; at != "/"; at = split_parent(at).parent) {
      for (std::size_t i : chosen_.with_path(at)) {
        bool goes = chosen_.has(i) && all_[i].after && all_[i].kind != TreeChangeKind::kModified;
        if (goes) return true;
      }
    }
    return false;
  }

  // Whether the agent has linked the node to a name which stays: then all remain names of one node.
  bool keeps_a_name(const UpperNode& node, const ChangeFilter& filter) const {
    return std::ranges::any_of(tree_.names_of(node.node.inode), [&](std::size_t index) {
      const std::string& path = tree_.nodes()[index].path;
      std::vector<std::size_t> changes = chosen_.with_path(path);
      if (changes.empty()) return filter && !filter(path);
      return std::ranges::any_of(changes, [&](std::size_t i) { return all_[i].after && !chosen_.has(i); });
    });
  }

  Status drop_node(const TreeChange& change) {
    const UpperNode* node = tree_.find(change.path);
    if (node == nullptr) return Ok{};
    if (change.kind == TreeChangeKind::kModified && node->node.is_directory()) return restore_dir(change, *node);
    bool may_be_open = in_use_ == InUse::kYes && node->origin != nullptr && !node->is_nameless &&
                       node->node.nlink == 1 && node->path == node->place;  // not in a directory that goes
    if (may_be_open && change.kind == TreeChangeKind::kModified && node->node.is_file())
      return restore_file(change, *node);
    if (node->node.is_directory()) {
      WARREN_TRY(edit_.remove_whiteouts_below(change.path));
      WARREN_TRY(remove_dirs_below(change.path));
    }
    if (!node->node.is_directory()) WARREN_TRY(uncover_above(*node));
    bool is_removed = WARREN_TRY(edit_.remove(change.path));
    if (!is_removed && edit_.has(change.path)) return not_dropped(change);
    if (!is_removed || node->is_nameless) return Ok{};
    bool is_own_place = node->origin != nullptr && !node->node.is_directory() && !change.base_path.empty() &&
                        change.base_path == node->origin->base_path;
    if (is_own_place) lost_places_.push_back(node);
    return restore_place(*node);
  }

  // Not "discarded", with the directory still there.
  static Error not_dropped(const TreeChange& change) {
    return Error(Code::kConflict, fmt::format("{} has files that stay, so it cannot be dropped", quote(change.path)),
                 "nothing was dropped; name what is in it, too, or no PATH to drop everything");
  }

  // The base's node shows again where the agent's copy of it was. Other names that the agent has given to the copy must
  // not lead to the base's node: a change under one would show under the other.
  Status detach_other_names(const UpperNode& node) {
    for (std::size_t index : tree_.names_of(node.node.inode)) {
      const UpperNode& other = tree_.nodes()[index];
      if (edit_.has(other.path)) return edit_.detach(other);
    }
    return Ok{};
  }

  // An apply may have kept it for those who have it open, under a number that the base's file does not have: they go on
  // with what the base has.
  Status restore_file(const TreeChange& change, const UpperNode& node) {
    WARREN_TRY(edit_.take_content(node, change.base_path));
    std::optional<Attributes> as = WARREN_TRY(base_.find(change.base_path));
    if (!as) return Error(Code::kConflict, quote(change.path) + " has just been deleted from the base");
    WARREN_TRY(copy_xattrs(as->inode, node.node.inode));
    WARREN_TRY(overlay_.upper.restore(node.node.inode, *as));
    WARREN_TRY(overlay_.upper.remove_cover(change.base_path));
    Origin origin = *node.origin;
    origin.seen = as;
    return replace_origin(overlay_, origin, change.base_path);
  }

  Status copy_xattrs(Inode from, Inode to) {
    FileSystem& fs = overlay_.upper.fs();
    XattrMap ours = WARREN_TRY(read_xattrs(fs, to));
    XattrMap theirs = WARREN_TRY(read_xattrs(overlay_.base, from));
    for (const auto& [name, value] : ours) {
      if (!theirs.contains(name)) WARREN_TRY(fs.remove_xattr(to, name));
    }
    for (const auto& [name, value] : theirs) WARREN_TRY(fs.set_xattr(to, name, as_bytes(value), XattrMode::kAny));
    return Ok{};
  }

  // Removes directories that existed only because of their content.
  Status remove_dirs_below(const std::string& path) {
    std::string from = path + "/";
    auto first = std::lower_bound(dirs_.begin(), dirs_.end(), from);
    auto last = std::find_if(first, dirs_.end(), [&](const std::string& dir) { return !dir.starts_with(from); });
    while (last != first) WARREN_TRY(edit_.remove(*--last));
    return Ok{};
  }

  // Makes the base's node at this name show again, unless the agent has renamed it to another name.
  Status restore_place(const UpperNode& node) {
    if (!node.there) return Ok{};
    auto moved = still_elsewhere_.find(node.place);
    if (moved == still_elsewhere_.end()) return edit_.remove_whiteout(node.path);
    const TreeChange& renamed = all_[moved->second];
    return edit_.add_whiteout(node.path, node.place, renamed.seen ? *renamed.seen : *node.there);
  }

  // Sets mode, owner and extended attributes to those of the base.
  Status restore_dir(const TreeChange& change, const UpperNode& node) {
    std::optional<Attributes> as = WARREN_TRY(base_.find(change.base_path));
    if (!as) return Ok{};
    WARREN_TRY(copy_xattrs(as->inode, node.node.inode));
    WARREN_TRY(edit_.restore_dir(change.path, *as));
    if (node.replaces_dir) return Ok{};  // it still hides the base's content
    WARREN_TRY(edit_.show_base(change.path, change.base_path));
    if (change.path == "/" || in_use_ == InUse::kYes) return Ok{};
    WARREN_TRY(edit_.remove(change.path));  // if nothing else is in it
    return Ok{};
  }

  // A name of the base that must show again.
  struct Name {
    std::string path;
    std::string place;
  };

  std::vector<Name> names_to_restore() const {
    std::vector<Name> names;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!chosen_.has(i)) continue;
      const TreeChange& change = all_[i];
      if (change.kind == TreeChangeKind::kDeleted) names.push_back({change.path, change.place});
      if (change.kind == TreeChangeKind::kRenamed) names.push_back({path_of(change.base_path), change.base_path});
    }
    std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.path < b.path; });
    return names;
  }

  // The merged path of a base name, following renamed directories above it but not its own rename.
  std::string path_of(const std::string& base_path) const {
    for (std::string_view above = base_path;;) {
      above = split_parent(above).parent;
      auto dir = dir_of_.find(std::string(above));
      if (dir != dir_of_.end()) return join_path(dir->second, base_path.substr(above == "/" ? 1 : above.size() + 1));
    }
  }

  // The same once renamed directories that are dropped have their old names back.
  std::string path_after(const std::string& base_path) const {
    for (std::string_view above = base_path;;) {
      above = split_parent(above).parent;
      auto dir = dir_of_.find(std::string(above));
      if (dir == dir_of_.end() || is_in_dropped_dir(join_path(dir->second, "x"))) continue;
      return join_path(dir->second, base_path.substr(above == "/" ? 1 : above.size() + 1));
    }
  }

  Status restore_name(const Name& name) {
    std::string parent(split_parent(name.path).parent);
    WARREN_TRY(uncover(parent, std::string(split_parent(name.place).parent)));
    return edit_.remove_whiteout(name.path);
  }

  // Content that the agent has moved out of a directory must not show twice when that directory shows again.
  Status hide_moved() {
    for (const auto& [base_path, index] : still_elsewhere_) {
      std::string path = path_after(base_path);
      bool is_restored = path != path_of(base_path);
      bool is_hidden = tree_.find_whiteout(path) != nullptr;
      if (edit_.has(path) || (is_hidden && !is_restored)) continue;
      std::vector<std::pair<std::string, std::string>> above;
      std::string at = path;
      std::string place = base_path;
      while (at != "/" && tree_.find(at) == nullptr) {
        at = std::string(split_parent(at).parent);
        place = std::string(split_parent(place).parent);
        is_restored = is_restored || is_chosen_deleted(at);
        above.emplace_back(at, place);
      }
      if (!is_restored) continue;
      for (auto dir = above.rbegin(); dir != above.rend(); ++dir) {
        WARREN_TRY(edit_.make_dir(dir->first, dir->second));
      }
      const TreeChange& moved = all_[index];
      WARREN_TRY(edit_.add_whiteout(path, base_path, moved.seen ? *moved.seen : *moved.before));
    }
    return Ok{};
  }

  // The base's node must show here again, even if the agent has recreated the directory above it.
  Status uncover_above(const UpperNode& node) {
    if (!node.there || node.is_nameless) return Ok{};
    return uncover(std::string(split_parent(node.path).parent), std::string(split_parent(node.place).parent));
  }

  // Makes a directory of the base show, without making any of its content visible that was not visible before.
  Status uncover(const std::string& path, const std::string& place) {
    if (path == "/" || !uncovered_.insert(path).second) return Ok{};
    const UpperNode* node = tree_.find(path);
    if (node != nullptr && !edit_.has(path)) return Ok{};  // already removed with a directory above it
    bool is_gone = node == nullptr && is_deleted(path);
    if (!is_gone && (node == nullptr || !node->replaces_dir)) return Ok{};
    bool is_inside_another = node != nullptr && node->origin == nullptr;  // that alone makes it hide the base's
    if (is_inside_another)
      WARREN_TRY(uncover(std::string(split_parent(path).parent), std::string(split_parent(place).parent)));
    if (is_gone) {
      WARREN_TRY(uncover(std::string(split_parent(path).parent), std::string(split_parent(place).parent)));
      if (is_chosen_deleted(path)) return Ok{};  // shown completely
      WARREN_TRY(edit_.make_dir(path, place));
    }
    WARREN_TRY(edit_.uncover(path, place));
    return is_gone ? edit_.remove_whiteout(path) : Status(Ok{});
  }

  bool is_deleted(std::string_view path) const {
    for (std::size_t index : chosen_.with_path(path)) {
      if (all_[index].kind == TreeChangeKind::kDeleted) return true;
    }
    return false;
  }

  bool is_chosen_deleted(std::string_view path) const {
    for (std::size_t index : chosen_.with_path(path)) {
      if (all_[index].kind == TreeChangeKind::kDeleted && chosen_.has(index)) return true;
    }
    return false;
  }

  const AgentOverlay& overlay_;
  const std::vector<TreeChange>& all_;
  const Selection& chosen_;
  const UpperTree& tree_;
  TreeFinder& base_;
  InUse in_use_;
  UpperEdit edit_;
  std::vector<std::string> dirs_;                        // directories of the upper layer, sorted
  std::unordered_map<std::string, std::string> dir_of_;  // the base's directory → the path that shows it
  std::unordered_map<std::string, std::size_t> still_elsewhere_;
  std::unordered_set<std::string> uncovered_;
  std::vector<const UpperNode*> lost_places_;  // copies that have lost the name that the base has for them
};

// What a session's `.git` is made from: the state of the base's, or in a linked worktree a repository of its own.
struct NewGit {
  std::optional<GitState> state;
  std::optional<WorktreeRepository> repository;

  // Waits for git commands that are under way.
  static Result<NewGit> read(const AgentOverlay& overlay) {
    NewGit read;
    std::optional<LinkedWorktree> worktree = find_linked_worktree(overlay.base_path);
    if (worktree) read.repository = WARREN_TRY(read_worktree_repository(overlay.base_path, *worktree));
    else read.state = WARREN_TRY(read_git_state(overlay.base));
    return read;
  }
};

// The state of git that a session has from its start (changes/pinned/pinned_git.h, changes/pinned/linked_worktree.h) is
// in files of its own, which the base's would not replace: it is dropped as a whole.
class GitOfSession {
 public:
  static Result<GitOfSession> find(const AgentOverlay& overlay) {
    GitOfSession found;
    Result<Attributes> git = lstat(overlay.base, kGit);
    bool is_made = git.ok() && git->is_file() && find_linked_worktree(overlay.base_path);
    bool can_be_made_again = is_made || (git.ok() && git->is_directory());
    if (!can_be_made_again || !WARREN_TRY(find_pin_time(overlay.upper))) return found;
    found.is_pinned_ = true;
    std::vector<Origin> origins = WARREN_TRY(overlay.upper.list_origins());
    for (Origin& origin : origins) {
      if (is_at_or_below(origin.base_path, kGit)) found.shown_.insert(std::move(origin.base_path));
    }
    return found;
  }

  bool has(std::string_view path) const {
    if (!is_pinned_ || !is_at_or_below(path, kGit)) return false;
    for (; path.size() > kGit.size(); path = split_parent(path).parent) {
      if (shown_.contains(std::string(path))) return false;
    }
    return true;
  }

  // Whether it is to be dropped. kInvalid if only a part of it is.
  Result<bool> is_taken(const std::vector<TreeChange>& all, const Selection& chosen) const {
    bool is_any = false;
    bool is_all = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_pinned_ || !is_at_or_below(all[i].path, kGit)) continue;
      is_any = is_any || (chosen.has(i) && has(all[i].path));
      is_all = is_all && chosen.has(i);
    }
    if (!is_any || is_all) return is_any;
    return Error(Code::kInvalid,
                 "the HEAD, index, branches and git settings of the session can only be dropped together",
                 "name .git to drop all of it, including commits");
  }

 private:
  static constexpr std::string_view kGit = "/.git";

  bool is_pinned_ = false;
  std::unordered_set<std::string> shown_;  // directories in it that show the base's
};

Status drop_changes(const AgentOverlay& overlay, const std::vector<TreeChange>& all, const ChangeFilter& filter,
                    InUse in_use) {
  Selection chosen(all);
  chosen.take_if(filter);
  chosen.complete_for_discard();
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  LinkCounts links = WARREN_TRY(LinkCounts::begin(overlay, tree, base));
  WARREN_TRY(Discarder(overlay, all, chosen, tree, base, in_use).run(filter));
  return links.update(overlay, base);
}

std::vector<TreeChange> select_discarded(const std::vector<TreeChange>& all, const ChangeFilter& filter) {
  Selection chosen(all);
  chosen.take_if(filter);
  chosen.complete_for_discard();
  return chosen.list();
}

// Of a repository, of one of its worktrees or of a submodule; a branch can have that name, too. `inside`: in its .git.
bool is_path_of_index(std::string_view inside) {
  if (inside == "index") return true;
  if (!inside.ends_with("/index")) return false;
  if (inside.starts_with("worktrees/")) return std::ranges::count(inside, '/') == 2;
  return inside.starts_with("modules/") && inside.find("/refs/") == inside.npos;
}

// Git writes these also if it is only asked something.
bool is_index(const TreeChange& change) {
  if (!is_in_git_dir(change.path)) return false;
  constexpr std::string_view kGit = "/.git/";
  std::size_t at = change.path.find(kGit);
  bool is_own = at != change.path.npos && is_path_of_index(std::string_view(change.path).substr(at + kGit.size()));
  return is_own || change.path.ends_with(".lock");
}

// Whether it is the same change as when it was listed, to the same content.
bool is_as_listed(const TreeChange& listed, const TreeChange& now) {
  if (listed.kind != now.kind || listed.path != now.path || listed.base_path != now.base_path) return false;
  if (!listed.after || !now.after) return listed.after.has_value() == now.after.has_value();
  const Attributes& a = *listed.after;
  const Attributes& b = *now.after;
  if (a.mode != b.mode || a.owner != b.owner) return false;
  return a.is_directory() || (a.size == b.size && a.mtime == b.mtime && a.ctime == b.ctime);
}

// kConflict, naming the first change that differs.
Status check_still_as_listed(std::vector<TreeChange> listed, std::vector<TreeChange> now) {
  std::erase_if(listed, is_index);
  std::erase_if(now, is_index);
  auto [was, is] = std::ranges::mismatch(listed, now, is_as_listed);
  if (was == listed.end() && is == now.end()) return Ok{};
  bool is_gone = is == now.end() || (was != listed.end() && was->path < is->path);
  return Error(Code::kConflict,
               fmt::format("{} was changed since you looked at it", quote(is_gone ? was->path : is->path)),
               "nothing was dropped; look at the changes again");
}

// nullopt, with nothing changed, if the session's git is to be dropped and there is no new one yet.
Result<std::optional<std::vector<TreeChange>>> discard_once(const AgentOverlay& overlay, const ChangeFilter& filter,
                                                            Agent* on_record_of,
                                                            const std::vector<TreeChange>* as_listed,
                                                            const NewGit* new_git) {
  AuditLog* log = nullptr;
  if (on_record_of != nullptr) log = WARREN_TRY(on_record_of->operators_audit());
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  std::vector<TreeChange> all = WARREN_TRY(list_every_change(overlay));
  Selection chosen(all);
  chosen.take_if(filter);
  chosen.complete_for_discard();
  if (as_listed != nullptr) WARREN_TRY(check_still_as_listed(*as_listed, chosen.list()));
  InUse in_use = on_record_of != nullptr ? find_use(*on_record_of) : InUse::kNo;
  GitOfSession git = WARREN_TRY(GitOfSession::find(overlay));
  bool drops_git = WARREN_TRY(git.is_taken(all, chosen));
  if (drops_git && new_git == nullptr) return std::optional<std::vector<TreeChange>>();
  auto without_git = [&](std::string_view path) { return !git.has(path) && (!filter || filter(path)); };
  WARREN_TRY(drop_changes(overlay, all, without_git, in_use));
  if (drops_git && new_git->repository) WARREN_TRY(write_worktree_repository(overlay.merged, *new_git->repository));
  else if (drops_git) WARREN_TRY(pin_git_again(overlay.upper, new_git->state));
  std::vector<TreeChange> dropped = chosen.list();
  std::vector<std::string> paths;
  for (const TreeChange& change : dropped) paths.push_back(change.path);
  WARREN_TRY(forget_brought(overlay.upper, paths));
  std::optional<AuditLog::Scope> scope;
  if (log != nullptr) scope.emplace(*log, operators_events(*on_record_of, "discard", paths));
  WARREN_TRY(unit->commit());
  return std::optional(std::move(dropped));
}

}  // namespace

Result<std::vector<TreeChange>> list_discarded(const AgentOverlay& overlay, const ChangeFilter& filter) {
  std::vector<TreeChange> all = WARREN_TRY(list_changes(overlay));
  return select_discarded(all, filter);
}

Result<std::vector<TreeChange>> list_every_discarded(const AgentOverlay& overlay, const ChangeFilter& filter) {
  std::vector<TreeChange> all = WARREN_TRY(list_every_change(overlay));
  return select_discarded(all, filter);
}

Result<std::vector<TreeChange>> discard_changes(const AgentOverlay& overlay, const ChangeFilter& filter,
                                                Agent* on_record_of, const std::vector<TreeChange>* as_listed) {
  std::optional<std::vector<TreeChange>> dropped =
      WARREN_TRY(discard_once(overlay, filter, on_record_of, as_listed, nullptr));
  if (!dropped) {  // reading git's state may wait for a git command; writers to the session must not wait for it, too
    NewGit new_git = WARREN_TRY(NewGit::read(overlay));
    dropped = WARREN_TRY(discard_once(overlay, filter, on_record_of, as_listed, &new_git));
  }
  bool is_in_use = on_record_of != nullptr && find_use(*on_record_of) == InUse::kYes;
  if (is_in_use) freeze_work_tree(*on_record_of).ignore("then the base's newer version shows");
  return *std::move(dropped);
}

}  // namespace warren
