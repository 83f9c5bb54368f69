#include "changes/changes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/path.h"
#include "changes/compare.h"
#include "changes/left_out.h"
#include "changes/pinned/as_committed.h"
#include "changes/pinned/pinned_git.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_tree.h"
#include "fs/list_dir.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

class Lister {
 public:
  explicit Lister(const AgentOverlay& overlay) : overlay_(overlay), base_(overlay.base), merged_(overlay.merged) {}

  Result<std::vector<TreeChange>> list() {
    auto view = WARREN_TRY(overlay_.upper.begin(UnitAccess::kRead));
    UpperTree tree = WARREN_TRY(UpperTree::read(overlay_, base_));
    tree_ = &tree;
    pinned_ = WARREN_TRY(find_pin_time(overlay_.upper));
    std::vector<LostLink> lost = WARREN_TRY(overlay_.upper.list_lost_links());
    for (LostLink& link : lost) lost_.emplace(link.base_path, link);
    WARREN_TRY(find_hidden());
    claim_renamed();
    WARREN_TRY(list_root());
    for (const UpperNode& node : tree.nodes()) WARREN_TRY(list_node(node));
    for (const UpperGap& gap : tree.gaps()) {
      if (gap.there && !is_elsewhere(gap.place) && !tree.is_only_hidden(gap)) {
        WARREN_TRY(list_deleted({gap.path, gap.place, *gap.there, gap.known_at}));
      }
    }
    std::sort(changes_.begin(), changes_.end(), [](const TreeChange& a, const TreeChange& b) {
      return a.path != b.path ? a.path < b.path : a.kind < b.kind;
    });
    leave_out_lost_dirs();
    return std::move(changes_);
  }

 private:
  struct Gone {
    std::string path;
    std::string place;
    Attributes node;
    Timestamp known_at;  // a time at which the agent saw what the base had there
  };

  // Directories of the base's that it no longer has, and in which the agent has nothing of its own: git removes those
  // that are empty, and some are there only for what was in them (changes/pinned/frozen_tree.h). One with a change in
  // it has to be made again.
  void leave_out_lost_dirs() {
    leave_out_empty_dirs(changes_, [&](const TreeChange& change) {
      const UpperNode* node = tree_->find(change.path);
      return change.kind == TreeChangeKind::kAdded && node != nullptr && node->node.is_directory() && !node->there &&
             node->origin != nullptr && node->origin->base_path == node->place;
    });
  }

  Status find_hidden() {
    for (const std::string& path : overlay_.hidden) {
      if (WARREN_TRY(find_host_link(overlay_.base_path + path))) hidden_.push_back(path);
    }
    return Ok{};
  }

  bool is_hidden(std::string_view place) const {
    return !place.empty() && std::any_of(hidden_.begin(), hidden_.end(),
                                         [&](const std::string& hidden) { return is_at_or_below(place, hidden); });
  }

  bool contains_hidden(std::string_view place) const {
    return !place.empty() && std::any_of(hidden_.begin(), hidden_.end(), [&](const std::string& hidden) {
      return hidden != place && is_at_or_below(hidden, place);
    });
  }

  bool touches_hidden(const TreeChange& change) const {
    if (hidden_.empty() || !change.after) return false;
    if (change.kind == TreeChangeKind::kModified) return is_hidden(change.place) && !change.seen;
    bool moves_it =
        change.kind == TreeChangeKind::kRenamed && (is_hidden(change.base_path) || contains_hidden(change.base_path));
    return moves_it || is_hidden(change.place) || contains_hidden(change.place);
  }

  void add(TreeChange change) {
    change.touches_hidden = touches_hidden(change);
    changes_.push_back(std::move(change));
  }

  // A copy whose base name is gone counts as renamed; if it has several names, the first one counts.
  void claim_renamed() {
    for (const UpperNode& node : tree_->nodes()) {
      if (node.node.is_directory() || !is_foreign(node) || claimed_.contains(node.origin->base_path)) continue;
      bool has_own_name = false;
      for (std::size_t name : tree_->names_of(node.node.inode)) {
        has_own_name = has_own_name || !is_foreign(tree_->nodes()[name]);
      }
      if (has_own_name || !tree_->is_gone(node.origin->base_path)) continue;
      claimed_.insert(node.origin->base_path);
      renamed_.insert(node.path);
    }
  }

  static bool is_foreign(const UpperNode& node) {
    return node.origin != nullptr && !node.origin->base_path.empty() && node.origin->base_path != node.place;
  }

  // Whether the merged tree shows the base's node of that name under another name.
  bool is_elsewhere(const std::string& base_path) const {
    return claimed_.contains(base_path) || tree_->is_moved_dir(base_path);
  }

  Status list_root() {
    const UpperNode& root = *tree_->find("/");
    if (root.origin == nullptr || !root.there) return Ok{};
    return list_pair(root, "/");
  }

  // Whether the agent has it as it was at its start (changes/pinned/pinned_git.h).
  bool is_pinned(const UpperNode& node) const {
    if (!pinned_ || !is_at_or_below(node.path, "/.git")) return false;
    if (node.node.is_directory()) return is_at_or_below(node.path, "/.git/refs");  // only its files matter
    return node.node.mtime == *pinned_;
  }

  Status list_node(const UpperNode& node) {
    if (node.is_untouched() || is_pinned(node)) return Ok{};
    if (node.node.is_directory()) {
      if (node.base_path == node.place && node.there) return list_pair(node, node.place);
      if (node.base_path && node.base_path != node.place) return list_moved(node, *node.base_path);
      if (node.replaces_dir) return list_replaced_dir(node);
      return list_new(node);
    }
    if (renamed_.contains(node.path)) return list_moved(node, node.origin->base_path);
    bool is_same_kind = node.there && ((node.there->mode ^ node.node.mode) & S_IFMT) == 0;
    if (is_same_kind && !is_elsewhere(node.place) && !is_hard_link(node)) return list_pair(node, node.place);
    return list_new(node);
  }

  // Another name that the agent gave to a node of the base.
  bool is_hard_link(const UpperNode& node) const {
    return is_foreign(node) && tree_->names_of(node.node.inode).size() > 1;
  }

  Status list_moved(const UpperNode& node, const std::string& from) {
    std::optional<Attributes> before = WARREN_TRY(base_.find(from));
    bool is_same_kind = before && ((before->mode ^ node.node.mode) & S_IFMT) == 0;
    if (!is_same_kind) return list_new(node);
    WARREN_TRY(list_covered(node));
    TreeChange change = begin(TreeChangeKind::kRenamed, node);
    change.base_path = from;
    change.before = before;
    WARREN_TRY(compare(change, node));
    add(std::move(change));
    return Ok{};
  }

  Status list_new(const UpperNode& node) {
    WARREN_TRY(list_covered(node));
    TreeChange change = begin(TreeChangeKind::kAdded, node);
    bool is_second_name = is_foreign(node) && !node.node.is_directory() && !renamed_.contains(node.path);
    if (is_second_name) change.seen.reset();  // it describes the base's node under the first name
    auto own = node.there ? tree_->covers().end() : tree_->covers().find(node.place);
    change.has_lost_base = own != tree_->covers().end() && own->second.seen;
    add(std::move(change));
    return Ok{};
  }

  // Lists the base's node as deleted if something else took its name.
  Status list_covered(const UpperNode& node) {
    if (!node.there || is_elsewhere(node.place)) return Ok{};
    return list_deleted({node.path, node.place, *node.there, is_unseen_dir(node) ? Timestamp{} : node.node.ctime});
  }

  // Whether the agent has seen nothing of a directory of the base: it knows the name as something else, or somebody has
  // moved a directory there since, which may contain nothing but old files.
  bool is_unseen_dir(const UpperNode& node) const {
    if (!node.there->is_directory()) return false;
    bool is_recorded = node.origin != nullptr && (node.origin->base_path == node.place || node.is_kept_new());
    if (is_recorded && node.origin->seen) return !node.origin->seen->is_directory();
    const Cover* cover = tree_->find_cover(node.place);
    if (cover == nullptr) return node.there->ctime > node.node.ctime;
    return cover->base_path == node.place && cover->seen && !cover->seen->is_directory();
  }

  Status list_pair(const UpperNode& node, const std::string& place) {
    TreeChange change = begin(TreeChangeKind::kModified, node);
    change.base_path = place;
    change.before = WARREN_TRY(base_.find(place));  // looked up again: inode numbers of the base do not stay valid
    if (!change.before) return Ok{};
    bool is_recorded = node.origin != nullptr && (node.origin->base_path == place || node.is_kept_new());
    if (!is_recorded) consider_cover(change);
    consider_lost(change);
    WARREN_TRY(compare(change, node));
    if (change.is_content_changed || change.is_metadata_changed) add(std::move(change));
    return Ok{};
  }

  void consider_cover(TreeChange& change) const {
    const Cover* cover = tree_->find_cover(change.base_path);
    if (cover == nullptr) return;
    change.is_unseen = !cover->seen;
    bool is_of_dir_above = cover->base_path != change.base_path;
    if (is_of_dir_above && change.kind == TreeChangeKind::kDeleted) return;
    change.known_at = cover->at;
    change.seen = is_of_dir_above ? std::nullopt : cover->seen;
  }

  void consider_lost(TreeChange& change) const {
    auto lost = lost_.find(change.base_path);
    change.is_lost_link = lost != lost_.end() && lost->second.base == change.before->inode;
    if (change.is_lost_link) change.known_at = std::max(change.known_at, lost->second.at);
  }

  Status list_replaced_dir(const UpperNode& node) {
    WARREN_TRY(list_pair(node, node.place));
    // Of a pinned state, what the base has besides was never in the session.
    if (pinned_ && is_at_or_below(node.path, "/.git")) return Ok{};
    std::optional<Attributes> dir = WARREN_TRY(base_.find(node.place));
    if (!dir || !dir->is_directory()) return Ok{};
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(overlay_.base, dir->inode, DirDetail::kAttributes));
    for (const DirEntry& entry : entries) {
      std::string path = join_path(node.path, entry.name);
      std::string place = join_path(node.place, entry.name);
      if (tree_->find(path) != nullptr || is_elsewhere(place)) continue;
      WARREN_TRY(list_deleted({path, place, *entry.attributes, node.node.ctime}));
    }
    return Ok{};
  }

  Status list_deleted(Gone top) {
    const Cover* cover = tree_->find_cover(top.place);
    if (cover != nullptr && top.known_at != Timestamp{}) top.known_at = cover->at;
    std::vector<Gone> pending{std::move(top)};
    while (!pending.empty()) {
      Gone gone = std::move(pending.back());
      pending.pop_back();
      if (is_hidden(gone.place)) continue;
      // It was removed after a directory above it was moved, and was seen until then.
      auto own = tree_->covers().find(gone.place);
      if (own != tree_->covers().end() && own->second.seen) gone.known_at = own->second.at;
      const Whiteout* row = tree_->find_whiteout(gone.path);
      if (gone.node.is_directory()) {
        bool is_other = row != nullptr && row->seen && !is_as_seen(gone.node, *row->seen);
        bool is_unseen = is_other || (row == nullptr && is_moved_since(gone.node, gone.known_at));
        // Looked up by path: inode numbers from a listing do not stay valid.
        std::optional<Attributes> dir = WARREN_TRY(base_.find(gone.place));
        if (!dir || !dir->is_directory()) continue;
        std::vector<DirEntry> entries = WARREN_TRY(list_dir(overlay_.base, dir->inode, DirDetail::kAttributes));
        for (const DirEntry& entry : entries) {
          std::string place = join_path(gone.place, entry.name);
          if (is_elsewhere(place)) continue;
          Timestamp known_at = is_unseen ? Timestamp{} : gone.known_at;
          pending.push_back({join_path(gone.path, entry.name), place, *entry.attributes, known_at});
        }
      }
      if (contains_hidden(gone.place)) continue;
      TreeChange change;
      change.kind = TreeChangeKind::kDeleted;
      change.base_path = change.place = gone.place;
      change.before = gone.node;
      change.known_at = gone.known_at;
      if (row != nullptr) change.seen = row->seen;
      consider_cover(change);
      consider_lost(change);
      change.path = std::move(gone.path);
      changes_.push_back(std::move(change));
    }
    return Ok{};
  }

  TreeChange begin(TreeChangeKind kind, const UpperNode& node) const {
    TreeChange change;
    change.kind = kind;
    change.path = node.path;
    change.place = node.place;
    change.after = node.node;
    change.known_at = node.node.ctime;
    if (node.origin != nullptr) {
      // The row of a new node is about the name that was applied; another one is not in the base.
      bool is_of_other_name = node.is_kept_new() && !node.there && node.node.nlink > 1;
      if (!is_of_other_name) change.seen = node.origin->seen;
      change.has_hidden_names = node.origin->hidden_names > (node.is_nameless ? 1U : 0U);
    } else if (const Whiteout* row = tree_->find_whiteout(node.path)) {
      change.seen = row->seen;
    }
    return change;
  }

  Status compare(TreeChange& change, const UpperNode& node) {
    const Attributes& before = *change.before;
    change.is_content_changed = WARREN_TRY(has_other_content(node, before));
    // A directory that was copied up but not changed by the agent is not a change, even if the host has changed it.
    bool is_as_seen = node.node.is_directory() && change.seen && has_same_mode(node.node, *change.seen);
    bool is_mode_changed = !node.node.is_symlink() && before.mode != node.node.mode;
    change.is_metadata_changed = !is_as_seen && (is_mode_changed || before.owner != node.node.owner);
    if (change.is_content_changed || change.is_metadata_changed) return Ok{};
    XattrMap theirs = WARREN_TRY(read_xattrs(overlay_.base, before.inode));
    XattrMap ours = WARREN_TRY(read_xattrs(overlay_.upper.fs(), node.node.inode));
    change.is_metadata_changed = theirs != ours;
    return Ok{};
  }

  Result<bool> has_other_content(const UpperNode& node, const Attributes& before) {
    if (node.node.is_directory()) return false;
    if (node.node.is_symlink()) {
      std::string ours = WARREN_TRY(overlay_.upper.fs().read_link(node.node.inode));
      std::string theirs = WARREN_TRY(overlay_.base.read_link(before.inode));
      return ours != theirs;
    }
    if (!node.node.is_file()) return node.node.rdev != before.rdev;
    if (node.node.size != before.size) return true;
    std::vector<ByteRange> ranges = WARREN_TRY(overlay_.upper.list_base_ranges(node.node.inode));
    if (ranges.size() == 1 && ranges[0] == ByteRange{0, node.node.size}) return false;  // no byte was copied
    const Attributes* seen = node.origin != nullptr && node.origin->seen ? &*node.origin->seen : nullptr;
    if (!ranges.empty() && seen != nullptr && (seen->inode != before.inode || seen->mtime != before.mtime))
      return true;  // the base's file has changed since the copy was made: no need to compare
    FileSystem& ours = ranges.empty() ? overlay_.upper.fs() : overlay_.merged;
    Attributes file = node.node;
    if (!ranges.empty()) {
      std::optional<Attributes> found = WARREN_TRY(merged_.find(node.path));
      if (!found || !found->is_file()) return true;
      file = *found;
    }
    bool is_same = WARREN_TRY(has_same_content(ours, file, overlay_.base, before));
    return !is_same;
  }

  const AgentOverlay& overlay_;
  TreeFinder base_;
  TreeFinder merged_;
  const UpperTree* tree_ = nullptr;
  std::vector<std::string> hidden_;                 // those that exist
  std::unordered_map<std::string, LostLink> lost_;  // by base path
  std::unordered_set<std::string> claimed_;         // base paths of files that were renamed
  std::unordered_set<std::string> renamed_;         // their paths now
  std::optional<Timestamp> pinned_;                 // of the state of git
  std::vector<TreeChange> changes_;
};

}  // namespace

char TreeChange::letter() const {
  switch (kind) {
    case TreeChangeKind::kAdded: return 'A';
    case TreeChangeKind::kModified: return 'M';
    case TreeChangeKind::kDeleted: return 'D';
    case TreeChangeKind::kRenamed: return 'R';
  }
  return '?';
}

char TreeChange::type_letter() const {
  const Attributes& attributes = node();
  if (attributes.is_directory()) return 'd';
  if (attributes.is_symlink()) return 'l';
  return attributes.is_file() ? 'f' : '?';
}

Result<std::vector<TreeChange>> list_every_change(const AgentOverlay& overlay) { return Lister(overlay).list(); }

Result<std::vector<TreeChange>> list_changes(const AgentOverlay& overlay, const ChangeFilter& filter) {
  std::vector<TreeChange> changes = WARREN_TRY(Lister(overlay).list());
  WARREN_TRY(leave_out_as_committed(overlay, changes));
  if (!filter) return changes;
  std::erase_if(changes, [&](const TreeChange& change) {
    bool is_wanted = filter(change.path) || (change.kind == TreeChangeKind::kRenamed && filter(change.base_path));
    return !is_wanted;
  });
  return changes;
}

ChangeSummary summarise(const std::vector<TreeChange>& changes) {
  ChangeSummary sum;
  for (const TreeChange& change : changes) {
    switch (change.kind) {
      case TreeChangeKind::kAdded: ++sum.added; break;
      case TreeChangeKind::kModified: ++sum.modified; break;
      case TreeChangeKind::kDeleted: ++sum.deleted; break;
      case TreeChangeKind::kRenamed: ++sum.renamed; break;
    }
    bool has_content = change.kind == TreeChangeKind::kAdded || change.is_content_changed;
    if (has_content && change.after && change.after->is_file()) sum.bytes += change.after->size;
  }
  return sum;
}

}  // namespace warren
