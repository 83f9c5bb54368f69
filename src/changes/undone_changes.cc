#include "changes/undone_changes.h"

#include <unordered_set>

#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/tree_finder.h"
#include "changes/upper_tree.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

bool is_at_or_below_any(std::string_view path, const std::unordered_set<std::string>& tops) {
  for (; path != "/"; path = split_parent(path).parent) {
    if (tops.contains(std::string(path))) return true;
  }
  return false;
}

// The base has another version now, which the agent's node is compared with from here on.
Status follow_base(const AgentOverlay& overlay, const UpperNode& node) {
  Origin origin = *node.origin;
  origin.seen = node.there;
  origin.seen->ctime = {};                                   // the agent's node is another one
  WARREN_TRY(overlay.upper.remove_origin(node.node.inode));  // with the version before as a merge base
  WARREN_TRY(overlay.upper.put_origin(origin));
  if (!node.there->is_file() || node.there->size == 0 || node.there->size > limits::kAncestorBytes) return Ok{};
  std::string content = WARREN_TRY(read_file(overlay.base, node.place));
  return is_binary(content) ? Status(Ok{}) : overlay.upper.keep_ancestor(node.node.inode, as_bytes(content));
}

Status take_up(const AgentOverlay& overlay, const UpperNode& node) {
  bool is_copy = !node.origin->base_path.empty();
  if (is_copy && node.is_untouched()) return Ok{};  // it follows the base by itself
  bool is_of_place = !is_copy || node.origin->base_path == node.place;
  std::vector<ByteRange> in_base = WARREN_TRY(overlay.upper.list_base_ranges(node.node.inode));
  if (!is_of_place || !in_base.empty()) return Ok{};  // a part of it is in the base: it must stay a copy
  if (!node.there) {
    bool is_own = node.is_kept_new() || node.node.is_directory();
    return is_own ? overlay.upper.remove_origin(node.node.inode) : Status(Ok{});
  }
  bool is_same_kind = ((node.there->mode ^ node.node.mode) & S_IFMT) == 0;
  return is_same_kind && !node.node.is_directory() ? follow_base(overlay, node) : Status(Ok{});
}

}  // namespace

Status take_up_undone(const AgentOverlay& overlay, const std::vector<std::string>& paths) {
  std::unordered_set<std::string> tops(paths.begin(), paths.end());
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  for (const UpperNode& node : tree.nodes()) {
    bool is_undone = node.origin != nullptr && !node.is_nameless && is_at_or_below_any(node.place, tops);
    if (is_undone) WARREN_TRY(take_up(overlay, node));
  }
  return unit->commit();
}

}  // namespace warren
