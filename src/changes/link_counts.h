// Hard links of the base, counted anew after changes have left the upper layer.
//
// The upper layer keeps two things about a node of the base with several names: which of them it has lost, and how
// many still mean its copy without being in the upper layer. A name that shows again, or is gone from the base by
// now, changes both.
#pragma once

#include <map>
#include <set>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/tree_finder.h"
#include "changes/upper_tree.h"

namespace warren {

// Both calls within the same unit. O(names and rows of the upper layer), and nothing where there are no such nodes.
class LinkCounts {
 public:
  static Result<LinkCounts> begin(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base);

  // After the edit.
  Status settle(const AgentOverlay& overlay, TreeFinder& base);

 private:
  struct Node {
    std::set<std::string> names;     // of the base, as far as the upper layer has ever touched them
    std::uint32_t hidden_names = 0;  // of these, before the edit
  };
  static Result<std::uint32_t> count_hidden(Inode number, const Node& node, const UpperTree& tree, TreeFinder& base);

  std::map<Inode, Node> nodes_;
};

}  // namespace warren
