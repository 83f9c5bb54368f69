// Taking changes out of the upper layer, so that the base shows again: the common part of discard and apply.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/tree_finder.h"
#include "changes/upper_tree.h"

namespace warren {

// Within one write unit of the upper layer. Everything is by path of the merged tree. Directories that are
// only there because of something below them go with it; those that stay keep their times. The merged tree
// of the same agent object does not learn of any of this: open the agent anew afterwards.
class UpperEdit {
 public:
  UpperEdit(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base)
      : overlay_(overlay), tree_(tree), base_(base) {}

  // A directory that must stay even when it is empty: it is a change of its own.
  void keep_dir(std::string_view path) { kept_.emplace(path); }

  // Whether the upper layer has the path by now.
  bool has(std::string_view path) const { return find(path).has_value(); }

  // Removes the name, and the node with its last one. A directory only if it is empty, without whiteouts
  // and not kept; else it stays, and this says false.
  Result<bool> remove(std::string_view path);

  Status remove_whiteout(std::string_view path);
  Status remove_whiteouts_below(std::string_view path);
  Status add_whiteout(std::string_view path, std::string_view base_path, const Attributes& seen);

  // Makes a directory show the base's directory of that path, whatever it showed.
  Status show_base(std::string_view path, std::string_view base_path);

  // Makes a directory that hides the base's show it, with every name of it gone that does not stand in the
  // upper layer: nothing looks different yet.
  Status uncover(std::string_view path, std::string_view base_path);

  // The directory in the upper layer, copied from the base's `base_path` if it is not there.
  Result<Inode> make_dir(std::string_view path, std::string_view base_path);

  // After the last of the above: removes directories that are there for nothing, and gives the others their
  // times back.
  Status tidy();

 private:
  std::optional<Inode> find(std::string_view path) const;
  Status touch_parent(std::string_view path);
  Result<bool> is_bare(std::string_view path, Inode dir);
  Result<bool> prune(std::string_view path);
  Result<bool> has_own_metadata(const UpperNode* node);

  const AgentOverlay& overlay_;
  const UpperTree& tree_;
  TreeFinder& base_;
  std::unordered_set<std::string> kept_;
  std::unordered_set<std::string> removed_;
  std::unordered_set<std::string> shown_;  // directories that show the base by now
  std::unordered_map<std::string, Inode> made_;
  std::unordered_map<std::string, Attributes> touched_;  // directories as they were before
};

}  // namespace warren
