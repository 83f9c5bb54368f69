// Removes changes from the upper layer, so that the base shows again. Shared by discard and apply.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/upper/tree_finder.h"
#include "changes/upper/upper_tree.h"

namespace warren {

enum class InUse { kNo, kYes };
InUse find_use(Agent& agent);  // by another process: is_used_elsewhere

// Removes nodes that stayed in the upper layer after an apply, for those who had them open, and that the agent has not
// touched since. Also settles renames that the base has made, too (UpperEdit::settle_moves). Does nothing while another
// process has the agent open, and little if there are none. The merged tree of this agent object is not updated: close
// it afterwards.
enum class Dropped { kNothing, kSomething };
Result<Dropped> drop_untouched(Agent& agent);

// Opens an agent for a mount or a run. What is left from one that was killed is dropped first, since it hides the base.
// The files of a session in a git repository become those of its HEAD (changes/pinned/frozen_tree.h).
struct ToServe {
  std::unique_ptr<Agent> agent;
  std::string warning;  // "" if there is none
};
Result<ToServe> open_to_serve(const AgentOptions& options, Clock& clock);

// Use it within one write unit of the upper layer. Paths are those of the merged tree. A directory that exists in the
// upper layer only because of nodes below it is removed with them; the others keep their times. The merged tree of the
// same agent object is not updated: reopen the agent afterwards.
class UpperEdit {
 public:
  UpperEdit(const AgentOverlay& overlay, const UpperTree& tree, TreeFinder& base)
      : overlay_(overlay), tree_(tree), base_(base) {}

  // Marks a directory that must stay even if it is empty, because it is a change itself.
  void keep_dir(std::string_view path) { kept_.emplace(path); }

  // Whether the upper layer currently has the path.
  bool has(std::string_view path) const { return find(path).has_value(); }

  // Removes the name, and the node with its last name. A directory is removed only if it is empty, without whiteouts
  // and not kept; otherwise it stays and this returns false.
  Result<bool> remove(std::string_view path);

  Status remove_whiteout(std::string_view path);
  Status remove_whiteouts_below(std::string_view path);
  Status add_whiteout(std::string_view path, std::string_view base_path, const Attributes& seen);

  // What the agent knew of a name of the base that the tree hides, by its own record or that of a directory above it;
  // `now` is what the base has there.
  Cover cover_of(const std::string& place, const Attributes& now) const;

  // Sets mode, owner and times of a directory.
  Status restore_dir(std::string_view path, const Attributes& as);

  // Replaces the content of a file by that of the base's file.
  Status take_content(const UpperNode& node, std::string_view base_path);

  // Copies what a file still has in the base only. kConflict if the base no longer has that.
  Status take_rest(const UpperNode& node);

  // Makes a copy a node of the agent's own, with all of its content, under the names that it still has. kConflict if
  // content is missing that the base no longer has.
  Status detach(const UpperNode& node);

  // Makes a directory show the base's directory of that path, whatever it showed before.
  Status show_base(std::string_view path, std::string_view base_path);

  // Makes a directory that hides the base's directory show it, with a whiteout for each base name that the upper layer
  // does not have: the merged tree looks the same as before.
  Status uncover(std::string_view path, std::string_view base_path);

  // The directory in the upper layer; copied up from the base's `base_path` if it is missing.
  Result<Inode> make_dir(std::string_view path, std::string_view base_path);

  // Makes a node that the base had at `base_path` and no longer has, as a copy of that. The name must be free, and the
  // directory above in the upper layer. The caller writes the content, and restores the attributes then.
  Result<Inode> adopt(std::string_view path, std::string_view base_path, const Attributes& as, std::string_view target);

  // Stores the origins that follow UpperTree::moves(), and ends the whiteouts of their old names: from now on they do
  // not depend on what the base has there. If nobody uses the agent, removes files that were only renamed and whose
  // content was not copied: it can no longer be read from where it was.
  Status settle_moves(InUse in_use);

  // Removes every node for which UpperNode::is_untouched(), except at these paths.
  Status remove_untouched(const std::vector<std::string>& except = {});

  // Call it last: removes directories that are no longer needed, and restores the times of the others. While the agent
  // is in use, none is removed: a program may be working in one that was new here, and knows it by the upper layer's
  // number.
  Status tidy(InUse in_use);

 private:
  std::optional<Inode> find(std::string_view path) const;
  Status touch_parent(std::string_view path);
  Status copy_range(Inode from, ByteRange range, Inode to);
  Result<bool> is_bare(std::string_view path, Inode dir);
  Result<bool> prune(std::string_view path);
  Result<bool> has_own_metadata(const UpperNode* node);
  Result<bool> is_only_renamed(const UpperNode& node);

  const AgentOverlay& overlay_;
  const UpperTree& tree_;
  TreeFinder& base_;
  std::unordered_set<std::string> kept_;
  std::unordered_set<std::string> removed_;
  std::unordered_set<std::string> shown_;  // directories that now show the base
  std::unordered_map<std::string, Inode> made_;
  std::unordered_map<std::string, Attributes> touched_;  // changed directories with their attributes before the edit
};

}  // namespace warren
