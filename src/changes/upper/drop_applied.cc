#include "changes/upper/drop_applied.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/path.h"
#include "changes/pinned/pinned_git.h"
#include "changes/upper/link_counts.h"
#include "changes/upper/replace_origin.h"
#include "changes/upper/upper_edit.h"
#include "store/overlay/apply_log.h"

namespace warren {
namespace {

// Removes applied changes from the upper layer. While another process has the agent open, they stay, as copies of what
// the base has now: a program may have the node open, be in it, or have locked or mapped it, and knows it by a number
// that the base's node does not have. Untouched ones are no changes, and go when nobody uses the agent any more.
class Dropper {
 public:
  Dropper(const AgentOverlay& overlay, const Intent& intent, const UpperTree& tree, TreeFinder& base, InUse in_use)
      : overlay_(overlay), intent_(intent), tree_(tree), base_(base), in_use_(in_use), edit_(overlay, tree, base) {}

  Status run() {
    WARREN_TRY(edit_.settle_moves(in_use_));
    WARREN_TRY(follow_renames());
    find_shown_dirs();
    WARREN_TRY(uncover_above());
    for (const UpperGap& gap : tree_.gaps()) gap_of_.emplace(gap.place, gap.path);
    WARREN_TRY(follow_written_nodes());
    WARREN_TRY(follow_touched_links());
    WARREN_TRY(cut_off_replaced_dirs());
    // What was deleted first: the apply may have put another node there, and that one counts.
    for (const AppliedChange& change : std::views::reverse(intent_.changes)) {
      if (change.kind == TreeChangeKind::kDeleted) WARREN_TRY(drop_deleted(change));
    }
    for (const AppliedChange& change : std::views::reverse(intent_.changes)) {
      if (change.kind != TreeChangeKind::kDeleted) WARREN_TRY(drop_node(change));
    }
    WARREN_TRY(leave_old_names());
    for (const Removal& gone : removals_) WARREN_TRY(edit_.add_whiteout(gone.path, gone.base_path, gone.written));
    if (in_use_ == InUse::kNo) WARREN_TRY(edit_.remove_untouched(changed_));
    return edit_.tidy(in_use_);
  }

  std::vector<std::string> take_changed() { return std::move(changed_); }

 private:
  using Moves = std::map<std::string, std::string, std::less<>>;

  // The base path after the renames; nullopt if they do not affect it.
  static std::optional<std::string> moved_to(const Moves& moves, const std::string& base_path, std::string_view from) {
    for (std::string_view at = from; at != "/"; at = split_parent(at).parent) {
      auto moved = moves.find(at);
      if (moved != moves.end()) return moved->second + base_path.substr(at.size());
    }
    return std::nullopt;
  }

  // Updates the base paths of the nodes that stay in the upper layer.
  Status follow_renames() {
    for (const AppliedChange& change : intent_.changes) {
      if (change.kind != TreeChangeKind::kRenamed) continue;
      moves_.emplace(change.base_path, change.path);
      if (change.type == S_IFDIR) new_dirs_.emplace(change.path, change.upper);
    }
    const Moves& moves = moves_;
    if (moves.empty()) return Ok{};
    for (const auto& [upper, row] : tree_.origins()) {
      bool has_followed = tree_.followed().contains(upper);  // it is where the base has it now
      if (row.base_path.empty() || row.base_path == "/" || has_followed) continue;
      std::optional<std::string> now = moved_to(moves, row.base_path, row.base_path);
      if (!now) continue;
      Origin follows = row;
      follows.base_path = *std::move(now);
      WARREN_TRY(overlay_.upper.put_origin(follows));
    }
    WARREN_TRY(follow_covers());
    return follow_lost_links();
  }

  // All old names are removed first: the new name of one may be the old name of another.
  Status follow_covers() {
    std::vector<Cover> moved;
    for (const auto& [place, row] : tree_.covers()) {
      std::optional<std::string> now = moved_to(moves_, place, split_parent(place).parent);
      if (!now) continue;
      WARREN_TRY(overlay_.upper.remove_cover(place));
      moved.push_back({.base_path = *std::move(now), .seen = row.seen, .at = row.at});
    }
    for (const Cover& cover : moved) WARREN_TRY(overlay_.upper.put_cover(cover));
    return Ok{};
  }

  Status follow_lost_links() {
    std::vector<LostLink> lost = WARREN_TRY(overlay_.upper.list_lost_links());
    std::vector<LostLink> moved;
    for (LostLink& link : lost) {
      std::optional<std::string> now = moved_to(moves_, link.base_path, split_parent(link.base_path).parent);
      if (!now) continue;
      WARREN_TRY(overlay_.upper.remove_lost_link(link.base_path));
      link.base_path = *std::move(now);
      moved.push_back(std::move(link));
    }
    for (const LostLink& link : moved) WARREN_TRY(overlay_.upper.put_lost_link(link));
    return Ok{};
  }

  // Whether it shows a directory of the base whose path has become that of another one, which was renamed.
  bool is_replaced(const UpperNode& node) const {
    if (!node.node.is_directory() || node.origin == nullptr) return false;
    const std::string& from = node.origin->base_path;
    auto renamed = new_dirs_.find(from);
    bool is_other = renamed != new_dirs_.end() && renamed->second != node.node.inode;
    return is_other && !tree_.followed().contains(node.node.inode) && !moved_to(moves_, from, from);
  }

  // Of two exchanged directories, one may have nothing that git tracks: a merge then brings one rename only. The other
  // directory is a new one from here on, since it would show what is in the first.
  Status cut_off_replaced_dirs() {
    for (const UpperNode& node : tree_.nodes()) {
      if (is_replaced(node)) WARREN_TRY(overlay_.upper.remove_origin(node.node.inode));
    }
    return Ok{};
  }

  void find_shown_dirs() {
    for (const UpperNode& node : tree_.nodes()) {
      if (!node.node.is_directory() || node.origin == nullptr || node.origin->base_path.empty()) continue;
      if (is_replaced(node)) continue;
      const std::string& from = node.origin->base_path;
      bool has_followed = tree_.followed().contains(node.node.inode);
      std::optional<std::string> now = has_followed ? std::nullopt : moved_to(moves_, from, from);
      shown_at_.emplace(now.value_or(from), node.path);
    }
  }

  // Where the merged tree shows that name of the base: the agent may have moved directories above it since it was
  // staged.
  std::string path_of(const std::string& base_path) const {
    for (std::string_view at = split_parent(base_path).parent; at != "/"; at = split_parent(at).parent) {
      auto dir = shown_at_.find(at);
      if (dir != shown_at_.end()) return dir->second + base_path.substr(at.size());
    }
    return base_path;
  }

  // A directory that hides the base's directory would also hide what was applied in it. One that the agent has moved
  // since shows it under its new path, and what has the old one is another directory.
  Status uncover_above() {
    std::map<std::string, std::string> dirs;  // by the path that hides it
    for (const AppliedChange& change : intent_.changes) {
      for (std::string at = change.path; at != "/"; at = std::string(split_parent(at).parent)) {
        if (shown_at_.contains(at)) continue;
        std::string path = path_of(at);
        const UpperNode* node = tree_.find(path);
        bool is_opaque = node != nullptr && node->origin != nullptr && node->origin->base_path.empty();
        if (is_opaque || (node != nullptr && node->replaces_dir)) dirs.emplace(std::move(path), at);
      }
    }
    for (const auto& [path, base_path] : dirs) WARREN_TRY(edit_.uncover(path, base_path));
    return Ok{};
  }

  // A node that was overwritten in place has changed under all its names, including those that the agent deleted.
  Status follow_written_nodes() {
    std::unordered_map<Inode, const AppliedChange*> written;
    for (const AppliedChange& change : intent_.changes) {
      bool is_written = change.kind != TreeChangeKind::kDeleted && change.type == S_IFREG && !change.base_path.empty();
      if (!is_written) continue;
      std::optional<Attributes> now = WARREN_TRY(base_.find(change.path));
      if (now) written.emplace(now->inode, &change);
    }
    for (const UpperGap& gap : tree_.gaps()) {
      bool is_same = gap.there && gap.row->seen && gap.row->seen->inode == gap.there->inode;
      auto by = is_same ? written.find(gap.there->inode) : written.end();
      if (by == written.end()) continue;
      WARREN_TRY(edit_.add_whiteout(gap.path, gap.place, as_written(*by->second, *gap.there)));
    }
    return Ok{};
  }

  // Our own writes to a node also show under its other names; they must not count as changes by somebody else.
  Status follow_touched_links() {
    std::set<std::uint64_t> touched;
    for (const Step& step : intent_.steps) touched.insert({step.old_node.inode, step.new_node.inode});
    std::vector<LostLink> lost = WARREN_TRY(overlay_.upper.list_lost_links());
    for (LostLink& link : lost) {
      std::optional<Attributes> now = WARREN_TRY(base_.find(link.base_path));
      bool is_ours = now && now->inode == link.base && touched.contains(now->host_inode);
      if (!is_ours || now->ctime <= link.at) continue;
      link.at = now->ctime;
      WARREN_TRY(overlay_.upper.put_lost_link(link));
    }
    return Ok{};
  }

  Status drop_deleted(const AppliedChange& change) {
    WARREN_TRY(edit_.remove_whiteout(change.path));
    const UpperNode* node = tree_.find(change.path);
    // What is there now is a new node: of a name that the base does not have.
    WARREN_TRY(node != nullptr ? overlay_.upper.put_cover({.base_path = change.path, .seen = {}, .at = {}})
                               : overlay_.upper.remove_cover(change.path));
    bool is_dir_again =
        node != nullptr && node->node.is_directory();  // the whiteouts below belong to the new directory
    if (change.type != S_IFDIR || is_dir_again) return Ok{};
    return edit_.remove_whiteouts_below(change.path);
  }

  Status drop_node(const AppliedChange& change) {
    if (change.kind == TreeChangeKind::kRenamed) {
      // The whiteout of its old name, also if a directory above that was renamed, too.
      std::string_view above = split_parent(change.base_path).parent;
      for (const std::string& place :
           {change.base_path, moved_to(moves_, change.base_path, above).value_or(change.base_path)}) {
        auto gap = gap_of_.find(place);
        if (gap != gap_of_.end()) WARREN_TRY(edit_.remove_whiteout(gap->second));
        // Something new has the name, which the base does not have any more.
        else if (tree_.covers().contains(place)) WARREN_TRY(put_nothing_seen(place));
      }
    }
    std::string path = path_of(change.path);
    const UpperNode* node = tree_.find(path);
    if (node == nullptr || node->node.inode != change.upper) return keep_removal(change, path, node);
    WARREN_TRY(edit_.remove_whiteout(path));
    return node->node.is_directory() ? drop_dir(change, path) : drop_file(change, *node);
  }

  // Of a rename, the commits may have the removal of the old name only. What the base has at the new name is then not
  // the renamed node, and the content that this was copied from is no merge base for it.
  Status leave_old_names() {
    std::unordered_map<Inode, std::string_view> old_name_of;
    for (const AppliedChange& change : intent_.changes) {
      bool is_half = change.kind == TreeChangeKind::kDeleted && change.upper != Inode{} && change.type != S_IFDIR;
      if (is_half) old_name_of.emplace(change.upper, change.path);
    }
    if (old_name_of.empty()) return Ok{};
    std::unordered_map<Inode, Origin> rows;
    std::set<std::string, std::less<>> shown;
    std::vector<Origin> origins = WARREN_TRY(overlay_.upper.list_origins());
    for (Origin& row : origins) {
      shown.insert(row.base_path);
      rows.emplace(row.upper, std::move(row));
    }
    for (const UpperNode& node : tree_.nodes()) {
      auto old_name = old_name_of.find(node.node.inode);
      auto row = rows.find(node.node.inode);
      bool is_of_it = old_name != old_name_of.end() && row != rows.end() && row->second.base_path == old_name->second;
      if (is_of_it) WARREN_TRY(leave_old_name(node, row->second, shown));
    }
    return Ok{};
  }

  // It is a change of the node that it has replaced, if the agent has seen that one. Not while it is in use: another
  // node may still be known by the number of that one.
  Status leave_old_name(const UpperNode& node, const Origin& row, const std::set<std::string, std::less<>>& shown) {
    auto is_like_it = [&](const std::optional<Attributes>& other) {
      return other && ((other->mode ^ node.node.mode) & S_IFMT) == 0;
    };
    auto cover = tree_.covers().find(node.place);
    bool has_replaced = cover != tree_.covers().end() && is_like_it(cover->second.seen) && is_like_it(node.there);
    bool is_alone = has_replaced && node.node.nlink == 1 && node.there->nlink == 1 && row.hidden_names == 0;
    if (!is_alone || in_use_ == InUse::kYes || shown.contains(node.place)) return forget_merge_base(row);
    Origin origin{.upper = row.upper, .base_path = node.place, .seen = cover->second.seen};
    origin.seen->ctime = {};  // it is touched
    WARREN_TRY(overlay_.upper.remove_cover(node.place));
    return replace_origin(overlay_, origin, node.place);
  }

  Status forget_merge_base(const Origin& row) {
    std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(row.upper));
    WARREN_TRY(overlay_.upper.remove_origin(row.upper));
    WARREN_TRY(overlay_.upper.put_origin(row));
    return overlay_.upper.set_base_ranges(row.upper, in_base);
  }

  Status put_nothing_seen(const std::string& place) {
    return overlay_.upper.put_cover({.base_path = place, .seen = {}, .at = {}});
  }

  Status drop_dir(const AppliedChange& change, const std::string& path) {
    WARREN_TRY(overlay_.upper.remove_cover(change.path));
    WARREN_TRY(edit_.show_base(path, change.path));
    if (path == "/") return Ok{};
    if (in_use_ == InUse::kNo) WARREN_TRY(edit_.remove(path));
    return Ok{};
  }

  Status drop_file(const AppliedChange& change, const UpperNode& node) {
    bool is_same = node.node.size == change.size && node.node.mtime == change.mtime && node.node.ctime == change.ctime;
    if (WARREN_TRY(is_second_name(change, node))) {  // from now on it is a file of its own, as in the base
      if (!is_same) return keep_second_name(change, node);
      WARREN_TRY(edit_.remove(node.path));
      return Ok{};
    }
    if (!is_same) {  // a new change, relative to what the base has now
      changed_.push_back(node.path);
      return record_rest(change, node);
    }
    if (change.is_partial) return record_rest(change, node);  // the rest is still a change
    if (in_use_ == InUse::kYes && !node.is_nameless) return keep_file(change, node);
    WARREN_TRY(edit_.remove(node.path));
    bool is_alone = node.origin != nullptr && node.origin->hidden_names == 0;  // no other base name shows it
    bool has_other_names = is_alone && overlay_.upper.fs().get_attributes(node.node.inode).ok();
    return has_other_names ? record_change(change, node) : Status(Ok{});
  }

  // The agent has written to the file since: it stays one with two names, of which the base has the second, too.
  Status keep_second_name(const AppliedChange& change, const UpperNode& node) {
    changed_.push_back(node.path);
    std::optional<Attributes> now = WARREN_TRY(base_.find(change.path));
    if (now) now = as_written(change, *now);
    return overlay_.upper.put_cover({.base_path = change.path, .seen = now, .at = {}});
  }

  // The file stays for those who use it, and is no change. If somebody else has changed it in the base since it was
  // written, they go on with that version.
  Status keep_file(const AppliedChange& change, const UpperNode& node) {
    std::optional<Attributes> now = WARREN_TRY(base_.find(change.path));
    bool is_other = now && !is_written(change, *now);
    if (is_other && !(now->is_file() && node.node.is_file())) {
      WARREN_TRY(edit_.remove(node.path));
      return Ok{};
    }
    if (is_other || change.is_merged) WARREN_TRY(edit_.take_content(node, change.path));
    if (is_other) WARREN_TRY(overlay_.upper.restore(node.node.inode, *now));
    return record_origin(node, change.path, now, Written::kWhole);
  }

  // The agent's file lacks what a merge has taken from the base, so it stays in conflict with that, and what it was
  // compared with stays as it is: a merge recognises what both sides have.
  Status record_rest(const AppliedChange& change, const UpperNode& node) {
    bool was_whole = !change.is_partial;  // in records of older versions
    bool stays_in_conflict = change.is_merged && (change.has_unseen || was_whole);
    return stays_in_conflict ? keep_conflict(change, node) : record_change(change, node);
  }

  // The agent chooses the time of the file that was written, so that could look like what it has seen.
  Status keep_conflict(const AppliedChange& change, const UpperNode& node) {
    if (node.origin == nullptr || !node.origin->seen) return Ok{};
    std::optional<Attributes> now = WARREN_TRY(base_.find(change.path));
    if (!now || !is_as_seen(*now, *node.origin->seen)) return Ok{};
    Origin other = *node.origin;
    if (!other.base_path.empty()) other.base_path = change.path;
    other.seen->mtime.nanoseconds ^= 1;
    return overlay_.upper.put_origin(other);
  }

  // What is left in the upper layer is a change of what was written. If somebody else has changed that in the base
  // since, it is a conflict: nobody in the session has seen it.
  Status record_change(const AppliedChange& change, const UpperNode& node) {
    std::optional<Attributes> now = WARREN_TRY(base_.find(change.path));
    if (now) now = as_written(change, *now);
    return record_origin(node, change.path, now, Written::kPartly);
  }

  // Whether the base has what the apply has written.
  static bool is_written(const AppliedChange& change, const Attributes& now) {
    const HostNode& written = change.written;
    if (written.type == 0 || written.type == S_IFDIR) return true;
    return (now.mode & S_IFMT) == written.type && now.size == written.size && now.mtime == written.mtime;
  }

  // What is recorded as seen: the node that the base has, with the size and the time of what was written.
  static Attributes as_written(const AppliedChange& change, Attributes now) {
    if (is_written(change, now)) return now;
    now.size = change.written.size;
    now.mtime = change.written.mtime;
    return now;
  }

  // The agent has removed, renamed or replaced the node since it was staged. That is a new change: of the base's node
  // as we have written it. `other` is what has the path now.
  Status keep_removal(const AppliedChange& change, const std::string& path, const UpperNode* other) {
    std::optional<Attributes> written = WARREN_TRY(base_.find(change.path));
    if (!written) {
      WARREN_TRY(overlay_.upper.put_cover({.base_path = change.path, .seen = {}, .at = {}}));
      return edit_.remove_whiteout(path);
    }
    written = as_written(change, *written);
    // A copy without a name showed under a name of the base, and what a whiteout does not hide was not removed.
    bool was_removed = other != nullptr || change.kind != TreeChangeKind::kModified || tree_.find_gap(path) != nullptr;
    if (!was_removed) return Ok{};
    changed_.push_back(path);
    // A directory that is back at its old name shows what was written: now it is a renamed one.
    auto back = shown_at_.find(change.path);
    if (back != shown_at_.end()) edit_.keep_dir(back->second);
    WARREN_TRY(overlay_.upper.put_cover({.base_path = change.path, .seen = written, .at = {}}));
    WARREN_TRY(follow_renamed_copy(change, *written));
    if (other == nullptr || other->is_nameless) {
      removals_.push_back({path, change.path, *written});
      return Ok{};
    }
    bool is_same_kind = ((other->node.mode ^ written->mode) & S_IFMT) == 0;
    bool is_copy = other->origin != nullptr && !other->origin->base_path.empty();
    if (!is_same_kind || is_copy) return Ok{};
    return other->node.is_directory() ? edit_.uncover(path, change.path)
                                      : record_origin(*other, change.path, written, Written::kPartly);
  }

  // A copy that the agent has renamed since is now one of what we have written.
  Status follow_renamed_copy(const AppliedChange& change, const Attributes& written) {
    const Origin* row = tree_.find_origin(change.upper);
    if (row == nullptr || row->base_path != change.base_path || row->base_path.empty()) return Ok{};
    Origin follows = *row;
    follows.base_path = change.path;
    follows.seen = written;
    if (!written.is_directory()) follows.seen->ctime = {};  // it is touched
    return overlay_.upper.put_origin(follows);
  }

  // A name that the agent gave to a copy which has another one: the origin is about that.
  Result<bool> is_second_name(const AppliedChange& change, const UpperNode& node) const {
    bool may_be = change.kind == TreeChangeKind::kAdded && !is_own(node) && node.origin->base_path != node.place;
    if (!may_be) return false;
    Attributes now = WARREN_TRY(overlay_.upper.fs().get_attributes(node.node.inode));
    return now.nlink > 1;
  }

  static bool is_own(const UpperNode& node) { return node.origin == nullptr || node.is_kept_new(); }

  // Whether the base has the node as it is in the upper layer now.
  enum class Written { kPartly, kWhole };

  // Records what the base has (`seen`) as the origin: the inode number of the replaced node may be reused. A node that
  // is not a copy does not become one, so that it keeps its number.
  Status record_origin(const UpperNode& node, const std::string& base_path, const std::optional<Attributes>& seen,
                       Written written) {
    Origin origin{.upper = node.node.inode, .base_path = is_own(node) ? "" : base_path, .seen = seen};
    if (!origin.seen && !is_own(node)) return Ok{};                           // removed from the base again
    if (origin.seen && written == Written::kPartly) origin.seen->ctime = {};  // it is touched
    if (origin.seen && written == Written::kWhole) WARREN_TRY(take_times(node, *origin.seen));
    if (node.origin != nullptr) origin.hidden_names = node.origin->hidden_names;
    WARREN_TRY(overlay_.upper.remove_cover(base_path));  // from now on, the origin says it
    return replace_origin(overlay_, origin, base_path);
  }

  // The base's filesystem may have rounded them.
  Status take_times(const UpperNode& node, const Attributes& written) {
    Attributes as = WARREN_TRY(overlay_.upper.fs().get_attributes(node.node.inode));
    if (as.mtime == written.mtime && as.ctime <= written.ctime) return Ok{};
    as.mtime = written.mtime;
    as.ctime = std::min(as.ctime, written.ctime);
    return overlay_.upper.restore(node.node.inode, as);
  }

  // A name that the agent has removed since it was staged.
  struct Removal {
    std::string path;
    std::string base_path;
    Attributes written;
  };

  const AgentOverlay& overlay_;
  const Intent& intent_;
  const UpperTree& tree_;
  TreeFinder& base_;
  InUse in_use_;
  UpperEdit edit_;
  Moves moves_;
  std::map<std::string, Inode, std::less<>> new_dirs_;  // renamed directories by their new paths
  Moves shown_at_;  // directory of the base, after the renames → the path that shows it
  std::unordered_map<std::string, std::string> gap_of_;
  std::vector<Removal> removals_;  // their whiteouts are added last: a rename in the apply may remove one of that path
  std::vector<std::string> changed_;
};

Result<std::vector<std::string>> drop(const AgentOverlay& overlay, const Intent& intent, InUse in_use) {
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  LinkCounts links = WARREN_TRY(LinkCounts::begin(overlay, tree, base));
  Dropper dropper(overlay, intent, tree, base, in_use);
  WARREN_TRY(dropper.run());
  WARREN_TRY(links.update(overlay, base));
  return dropper.take_changed();
}

// Both paths of a rename. What was applied in a directory has changes of its own, unless that was renamed.
std::vector<std::string> list_paths(const Intent& intent) {
  std::vector<std::string> paths;
  for (const AppliedChange& change : intent.changes) {
    if (change.kind != TreeChangeKind::kRenamed && change.type == S_IFDIR) continue;
    paths.push_back(change.path);
    if (change.kind == TreeChangeKind::kRenamed) paths.push_back(change.base_path);
  }
  return paths;
}

}  // namespace

Result<std::vector<std::string>> drop_applied(Agent& agent, const AgentOverlay& overlay, const Intent& intent) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  std::vector<std::string> changed = WARREN_TRY(drop(overlay, intent, find_use(agent)));
  WARREN_TRY(add_applied_paths(overlay.upper, list_paths(intent)));
  WARREN_TRY(remove_apply_intent(agent.store()));
  WARREN_TRY(unit->commit());
  return changed;
}

Status drop_merged(const AgentOverlay& overlay, const Intent& merged, InUse in_use) {
  WARREN_TRY(drop(overlay, merged, in_use));
  return Ok{};
}

}  // namespace warren
