#include "changes/upper/keep_restored.h"

#include <ranges>

#include "agent/agent.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_edit.h"
#include "changes/upper/upper_tree.h"

namespace warren {
namespace {

class RestoredKeeper {
 public:
  RestoredKeeper(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base)
      : overlay_(overlay), tree_(tree), base_(base), edit_(overlay, tree, base) {}

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
    if (there && there->is_directory()) return Ok{};
    WARREN_TRY(edit_.remove_whiteouts_below(node.path));
    bool is_removed = WARREN_TRY(edit_.remove(node.path));
    return is_removed ? Status(Ok{}) : overlay_.upper.remove_origin(node.node.inode);
  }

  const AgentOverlay& overlay_;
  const UpperTree& tree_;
  TreeFinder& base_;
  UpperEdit edit_;
};

}  // namespace

Status keep_restored(const std::string& agent_path, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = agent_path}, clock));
  if (std::optional<AgentOverlay> overlay = agent->overlay()) {
    auto unit = WARREN_TRY(overlay->upper.begin(UnitAccess::kWrite));
    TreeFinder base(overlay->base);
    UpperTree tree = WARREN_TRY(UpperTree::read(*overlay, base));
    WARREN_TRY(RestoredKeeper(*overlay, tree, base).run());
    WARREN_TRY(unit->commit());
  }
  return agent->close();
}

}  // namespace warren
