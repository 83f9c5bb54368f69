#include "changes/upper/keep_restored.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <unordered_set>
#include <utility>

#include "base/below.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_edit.h"
#include "changes/upper/upper_tree.h"

namespace warren {
namespace {

// Where an agent had directories of the base, or had removed what is there: their paths in the base or in the merged
// tree. The base may lack one of them only because another branch is checked out: what an apply or an undo has removed
// has no such record any more.
Result<std::unordered_set<std::string>> list_dirs_of_base(const AgentOptions& options, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open(options, clock));
  std::unordered_set<std::string> dirs;
  std::optional<AgentOverlay> overlay = agent->overlay();
  if (!overlay) return dirs;
  auto view = WARREN_TRY(overlay->upper.begin(UnitAccess::kRead));
  std::vector<Origin> origins = WARREN_TRY(overlay->upper.list_origins());
  for (Origin& row : origins) {
    if (row.seen && row.seen->is_directory() && !row.base_path.empty()) dirs.insert(std::move(row.base_path));
  }
  std::vector<Whiteout> whiteouts = WARREN_TRY(overlay->upper.list_whiteouts());
  for (Whiteout& row : whiteouts) {
    if (row.seen && row.seen->is_directory()) dirs.insert(std::move(row.path));
  }
  return dirs;
}

class RestoredKeeper {
 public:
  RestoredKeeper(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base,
                 std::unordered_set<std::string> dirs_of_base)
      : overlay_(overlay),
        tree_(tree),
        base_(base),
        edit_(overlay, tree, base),
        dirs_of_base_(std::move(dirs_of_base)) {}

  Status run() {
    for (const UpperNode& node : std::views::reverse(tree_.nodes())) {  // children before parents
      WARREN_TRY(node.node.is_directory() ? keep_dir(node) : keep_file(node));
    }
    return edit_.tidy(InUse::kYes);  // of directories, nothing else is to change
  }

 private:
  Status keep_file(const UpperNode& node) {
    if (!node.is_untouched() || tree_.is_frozen(node)) return Ok{};
    Origin origin = *node.origin;
    if (node.there && is_as_seen(*node.there, *origin.seen)) return Ok{};
    // Of a large file the base may have had a part, which is gone: it follows the base.
    std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(node.node.inode));
    if (!in_base.empty()) return Ok{};
    origin.seen->ctime = {};  // it is touched
    return overlay_.upper.put_origin(origin);
  }

  Status keep_dir(const UpperNode& node) {
    bool is_copy = node.origin != nullptr && node.origin->seen && !node.origin->base_path.empty();
    if (!is_copy) return Ok{};
    std::optional<Attributes> there = WARREN_TRY(base_.find(node.origin->base_path));
    if ((there && there->is_directory()) || dirs_of_base_.contains(node.origin->base_path)) return Ok{};
    WARREN_TRY(edit_.remove_whiteouts_below(node.path));
    bool is_removed = WARREN_TRY(edit_.remove(node.path));
    if (is_removed) return Ok{};
    bool is_in_place = node.origin->base_path == node.place;
    if (is_in_place) WARREN_TRY(note_new(node, there));
    return overlay_.upper.remove_origin(node.node.inode);
  }

  // As when a directory is made: what the base has at its name, or gets there from now on, the agent has not seen.
  Status note_new(const UpperNode& node, const std::optional<Attributes>& there) {
    Cover cover{.base_path = node.place, .seen = {}, .at = node.node.ctime};
    if (there) cover.seen = node.origin->seen;
    return overlay_.upper.put_cover(cover);
  }

  const AgentOverlay& overlay_;
  const UpperTree& tree_;
  TreeFinder& base_;
  UpperEdit edit_;
  std::unordered_set<std::string> dirs_of_base_;  // as it was before the restore
};

// Also if it is another node with the same content: an undo puts back copies. Never for directories: what is in them is
// compared with their records.
bool looks_as_seen(const Attributes& now, Attributes seen) {
  seen.inode = now.inode;
  return !now.is_directory() && is_as_seen(now, seen);
}

// `then` is the tree of the checkpoint, matched with what the base has now.
class PathKeeper {
 public:
  PathKeeper(const AgentOverlay& past, const UpperTree& then, const AgentOverlay& overlay, const UpperTree& tree,
             TreeFinder& base)
      : past_(past),
        then_(then),
        overlay_(overlay),
        tree_(tree),
        edit_then_(past, then, base),
        edit_(overlay, tree, base) {}

  Status run(const std::vector<std::string>& paths) {
    auto is_restored = [&](const std::string& path) {
      return std::ranges::any_of(paths, [&](const std::string& one) { return is_at_or_below(path, one); });
    };
    auto leads_to_restored = [&](const std::string& path) {
      return std::ranges::any_of(paths, [&](const std::string& one) { return is_at_or_below(one, path); });
    };
    for (const UpperNode& node : tree_.nodes()) {
      const UpperNode* then = then_.find(node.path);  // without one it was the base's, and is again
      if (then == nullptr || node.place.empty() || node.is_nameless) continue;
      if (!node.node.is_directory()) {
        if (is_restored(node.path)) WARREN_TRY(keep_file(node, *then));
      } else if (is_restored(node.path)) {
        WARREN_TRY(keep_dir(node, *then));
      } else if (leads_to_restored(node.path) && node.there && !node.there->is_directory()) {
        WARREN_TRY(take_records(node, *then));  // it was made in place of that
      }
    }
    for (const UpperGap& gap : tree_.gaps()) {
      if (gap.there && is_restored(gap.path)) WARREN_TRY(keep_removal(gap));
    }
    return Ok{};
  }

 private:
  // A directory that hides what the base has there.
  Status keep_dir(const UpperNode& node, const UpperNode& then) {
    bool hides = node.there && (node.replaces_dir || !node.there->is_directory());
    return hides ? take_records(node, then) : Status(Ok{});
  }

  Status keep_file(const UpperNode& node, const UpperNode& then) {
    if (node.is_kept_new()) return Ok{};  // its record is of what was applied
    bool is_copy = node.origin != nullptr && node.origin->seen && !node.origin->base_path.empty();
    bool is_renamed = is_copy && node.origin->base_path != node.place;
    bool is_recorded = is_copy && !is_renamed;
    std::optional<Cover> known = find_known(node, then);
    std::optional<Attributes> seen = known ? known->seen : std::nullopt;
    if (!node.there) return is_copy || !seen ? Status(Ok{}) : put_cover(node, then);
    if (seen && looks_as_seen(*node.there, *seen)) return Ok{};
    if (!is_recorded && node.there->is_directory()) return take_records(node, then);
    if (is_renamed) return put_cover(node, then);
    std::vector<ByteRange> in_base = WARREN_TRY(overlay_.upper.list_base_ranges(node.node.inode));
    if (!in_base.empty()) return Ok{};
    std::optional<std::string> ancestor = WARREN_TRY(past_.upper.find_ancestor(then.node.inode));
    Inode upper = node.node.inode;
    std::optional<Origin> origin;
    if (is_copy) origin = *node.origin;
    WARREN_TRY(overlay_.upper.remove_origin(upper));  // with the merge base, which is what the base has now
    if (!is_copy) WARREN_TRY(put_cover(node, then));
    else WARREN_TRY(put_seen(*std::move(origin), *node.there, seen));
    return seen && ancestor ? overlay_.upper.keep_ancestor(upper, as_bytes(*ancestor)) : Status(Ok{});
  }

  // What the agent knew then of the base's node at the place of this one; nullopt if that was not recorded.
  std::optional<Cover> find_known(const UpperNode& node, const UpperNode& then) const {
    Cover known{.base_path = node.place, .seen = {}, .at = then.node.ctime};
    const Origin* origin = then.origin;
    bool is_of_place = origin != nullptr && origin->seen && (origin->base_path == node.place || then.is_kept_new());
    const Cover* cover = then_.find_cover(node.place);
    const Whiteout* row = then_.find_whiteout(then.path);
    if (is_of_place) known.seen = origin->seen;
    else if (cover != nullptr && cover->base_path == node.place) return *cover;
    else if (cover != nullptr && node.there) return edit_then_.cover_of(node.place, *node.there);
    else if (row != nullptr) known.seen = row->seen;
    return known.seen ? std::optional(known) : std::nullopt;
  }

  Status put_cover(const UpperNode& node, const UpperNode& then) {
    Cover nothing{.base_path = node.place, .seen = {}, .at = then.node.ctime};
    return overlay_.upper.put_cover(find_known(node, then).value_or(nothing));
  }

  // The copy keeps the number that programs know it by: that of the base's node.
  Status put_seen(Origin origin, const Attributes& there, const std::optional<Attributes>& then) {
    Attributes seen = there.is_directory() ? *origin.seen : there;
    bool is_same_kind = then && ((then->mode ^ seen.mode) & S_IFMT) == 0;
    if (is_same_kind) seen = *then;
    else --seen.mtime.seconds;  // the agent has seen nothing there, or something else than this
    seen.inode = origin.seen->inode;
    seen.generation = origin.seen->generation;
    seen.ctime = {};  // it is touched
    origin.seen = seen;
    return overlay_.upper.put_origin(origin);
  }

  Status keep_removal(const UpperGap& gap) {
    const Whiteout* then = then_.find_whiteout(gap.path);
    bool is_known = then_.find_cover(gap.place) != nullptr;
    std::optional<Attributes> seen = then == nullptr ? std::nullopt : then->seen;
    if (!seen && !is_known) return Ok{};
    if (gap.there->is_directory()) WARREN_TRY(take_whiteouts(gap.path, gap.place));
    if (seen && looks_as_seen(*gap.there, *seen)) return Ok{};
    Cover cover = edit_then_.cover_of(gap.place, *gap.there);
    if (!is_known) cover.seen = seen;
    WARREN_TRY(take_covers(gap.place));
    WARREN_TRY(edit_.add_whiteout(gap.path, gap.place, seen.value_or(cover.seen.value_or(*gap.there))));
    return overlay_.upper.put_cover(cover);
  }

  // The records of a name and of everything below it.
  Status take_records(const UpperNode& node, const UpperNode& then) {
    WARREN_TRY(take_whiteouts(node.path, node.place));
    bool is_known = !node.node.is_directory() || find_known(node, then);
    if (!is_known) return Ok{};
    WARREN_TRY(take_covers(node.place));
    return put_cover(node, then);
  }

  // To remove what is in a directory records all of it as seen.
  Status take_whiteouts(const std::string& path, const std::string& place) {
    WARREN_TRY(edit_.remove_whiteouts_below(path));
    for (const Whiteout& row : then_.whiteouts_below(path)) {
      if (row.seen) WARREN_TRY(edit_.add_whiteout(row.path, place + row.path.substr(path.size()), *row.seen));
    }
    return Ok{};
  }

  Status take_covers(const std::string& place) {
    for (const Cover* cover : tree_.covers_of(place)) WARREN_TRY(overlay_.upper.remove_cover(cover->base_path));
    for (const Cover* cover : then_.covers_of(place)) WARREN_TRY(overlay_.upper.put_cover(*cover));
    return Ok{};
  }

  const AgentOverlay& past_;
  const UpperTree& then_;
  const AgentOverlay& overlay_;
  const UpperTree& tree_;
  const UpperEdit edit_then_;
  UpperEdit edit_;
};

}  // namespace

Status keep_restored_paths(Agent& past, Agent& agent, const std::vector<std::string>& paths) {
  std::optional<AgentOverlay> before = past.overlay();
  std::optional<AgentOverlay> now = agent.overlay();
  if (!before || !now) return Ok{};
  TreeFinder base(now->base);
  UpperTree tree = WARREN_TRY(UpperTree::read(*now, base));
  TreeFinder base_then(before->base);
  auto view = WARREN_TRY(before->upper.begin(UnitAccess::kRead));
  UpperTree then = WARREN_TRY(UpperTree::read(*before, base_then));
  return PathKeeper(*before, then, *now, tree, base).run(paths);
}

Status keep_restored(const std::string& agent_path, const AgentOptions& before, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = agent_path}, clock));
  if (std::optional<AgentOverlay> overlay = agent->overlay()) {
    Result<std::unordered_set<std::string>> dirs = list_dirs_of_base(before, clock);
    if (!dirs.ok()) dirs = std::unordered_set<std::string>();  // then a directory that the base lacks is a new one
    auto unit = WARREN_TRY(overlay->upper.begin(UnitAccess::kWrite));
    TreeFinder base(overlay->base);
    UpperTree tree = WARREN_TRY(UpperTree::read(*overlay, base));
    WARREN_TRY(RestoredKeeper(*overlay, tree, base, std::move(dirs).take_value()).run());
    WARREN_TRY(unit->commit());
  }
  return agent->close();
}

}  // namespace warren
