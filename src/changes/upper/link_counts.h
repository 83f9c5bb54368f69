// Recounts hard links of the base after changes were removed from the upper layer.
//
// For a base node with several names, the upper layer records which names the node has lost, and how many names refer
// to its copy without being in the upper layer. Both change when a name shows again or has been deleted in the base.
#pragma once

#include <map>
#include <set>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_tree.h"

namespace warren {

// Make both calls within the same unit. O(names and rows of the upper layer); free if there are no such nodes.
class LinkCounts {
 public:
  static Result<LinkCounts> begin(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base);

  // Stores the new counts; call it after the edit.
  Status update(const AgentOverlay& overlay, TreeFinder& base);

 private:
  struct Node {
    std::set<std::string> names;     // in the base, as far as the upper layer has ever touched them
    std::uint32_t hidden_names = 0;  // the number of these that were hidden before the edit
  };
  static Result<std::uint32_t> count_hidden(Inode number, const Node& node, const UpperTree& tree, TreeFinder& base);

  std::map<Inode, Node> nodes_;
};

}  // namespace warren
