// What the agent had renamed, and still has under the new name because it is in use, is renamed again after an undo: a
// copy of the base's node, which is hidden at its old name.
#pragma once

#include <map>
#include <string>
#include <unordered_set>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/undo/undone_base.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_edit.h"
#include "changes/upper/upper_tree.h"

namespace warren {

// Use it within one write unit of the upper layer, with the tree of before; read that again afterwards. May be run
// again for the same undo, which changes nothing.
class RenamedAgain {
 public:
  RenamedAgain(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base, const UndoneBase& undone)
      : overlay_(overlay), tree_(tree), base_(base), undone_(undone), edit_(overlay, tree, base) {}

  Status run();

 private:
  // The path that a node has again → its row, with the path of the apply; parents first.
  using Renamed = std::map<std::string, const Origin*>;

  Result<Renamed> list_renamed();
  Result<bool> hide(const std::string& base_path, const Attributes& there, const Origin& row);
  Result<bool> cover_with(const UpperNode& own, const std::string& base_path, const Attributes& seen);
  Status make_opaque(const UpperNode& dir);
  bool is_renamed_below(const std::string& base_path, const std::string& dir) const;
  Status make_addition(const Origin& row, const std::string& base_path, const Attributes& there);
  Result<bool> copy_rest(const Origin& row, const std::string& base_path, const Attributes& there);
  Status follow_rows();
  Status follow_covers();
  Status follow(Origin origin);
  Status cover(const std::string& place);
  std::string shown_path_of(const std::string& base_path) const;
  bool is_hidden_above(const std::string& base_path) const;
  std::string back_path_of(const std::string& base_path, std::string_view from) const;

  const AgentOverlay& overlay_;
  const UpperTree& tree_;
  TreeFinder& base_;
  const UndoneBase& undone_;
  UpperEdit edit_;
  std::unordered_set<std::string> hidden_;  // the new paths of those that are hidden at the old one
  std::unordered_set<Inode> dropped_;       // nodes whose row is no longer about a node of the base
};

}  // namespace warren
