#include "changes/upper/link_counts.h"

#include <algorithm>

namespace warren {
namespace {

Result<bool> has_name(TreeFinder& base, const std::string& name, Inode node) {
  std::optional<Attributes> there = WARREN_TRY(base.find(name));
  return there && there->inode == node;
}

}  // namespace

Result<std::uint32_t> LinkCounts::count_hidden(Inode number, const Node& node, const UpperTree& tree,
                                               TreeFinder& base) {
  std::uint32_t count = 0;
  for (const std::string& name : node.names) {
    if (tree.is_gone(name)) continue;
    const UpperNode* own = tree.find(tree.path_of(name));
    bool is_upper = own != nullptr && !own->is_nameless;
    bool is_there = WARREN_TRY(has_name(base, name, number));
    if (is_there && !is_upper) ++count;
  }
  return count;
}

Result<LinkCounts> LinkCounts::begin(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base) {
  LinkCounts counts;
  std::vector<LostLink> lost = WARREN_TRY(overlay.upper.list_lost_links());
  for (LostLink& link : lost) counts.nodes_[link.base].names.insert(std::move(link.base_path));
  for (const UpperNode& node : tree.nodes()) {
    bool is_linked = node.there && !node.there->is_directory() && node.there->nlink > 1;
    if (is_linked) counts.nodes_[node.there->inode].names.insert(node.place);
  }
  for (auto& [number, node] : counts.nodes_) {
    node.hidden_names = WARREN_TRY(count_hidden(number, node, tree, base));
  }
  return counts;
}

Status LinkCounts::update(const AgentOverlay& overlay, TreeFinder& base) {
  if (nodes_.empty()) return Ok{};
  UpperTree now = WARREN_TRY(UpperTree::read(overlay, base));
  std::vector<LostLink> lost = WARREN_TRY(overlay.upper.list_lost_links());
  for (const LostLink& link : lost) {
    bool is_there = WARREN_TRY(has_name(base, link.base_path, link.base));
    bool is_lost = is_there && now.is_gone(link.base_path);
    if (!is_lost) WARREN_TRY(overlay.upper.remove_lost_link(link.base_path));
  }
  std::vector<Origin> origins = WARREN_TRY(overlay.upper.list_origins());
  for (Origin& origin : origins) {
    auto node = origin.seen && !origin.seen->is_directory() ? nodes_.find(origin.seen->inode) : nodes_.end();
    if (node == nodes_.end()) continue;
    std::uint32_t hidden = WARREN_TRY(count_hidden(node->first, node->second, now, base));
    if (hidden == node->second.hidden_names) continue;
    std::uint32_t before = origin.hidden_names + hidden;
    origin.hidden_names = before - std::min(before, node->second.hidden_names);
    WARREN_TRY(overlay.upper.put_origin(origin));
  }
  return Ok{};
}

}  // namespace warren
