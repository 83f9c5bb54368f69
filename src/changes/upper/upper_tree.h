// The whole upper layer of an overlay, matched with the base: the origin of each node, and the base names that are no
// longer what they were. The callers decide what that means as a change.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/upper/tree_finder.h"
#include "fs/overlay/base_moves.h"
#include "fs/overlay/upper_layer.h"

namespace warren {

// Whether a node of the upper layer has not changed since the base's node was recorded as its origin. Never for
// directories.
bool is_as_recorded(const Attributes& node, const Origin& origin);

// A name in the upper layer.
struct UpperNode {
  std::string path;
  Attributes node;                       // as the upper layer has it
  Inode parent;                          // its directory in the upper layer
  std::string place;                     // the base path that it corresponds to; "" if its directory has no counterpart
  std::optional<Attributes> there;       // the base's node at `place`
  const Origin* origin = nullptr;        // its row, if it has one
  std::optional<std::string> base_path;  // for a directory: the base's directory that it shows
  // A directory that shows nothing of the base, at a path where the base has a directory: it replaced that.
  bool replaces_dir = false;
  Timestamp parent_changed;  // ctime of its directory
  // It has neither a name nor a directory in the upper layer: the path is one of the names that the base still has for
  // the node that it is a copy of.
  bool is_nameless = false;

  // A new node that an apply has written to the base; it stayed for those who use it, under the number that they know.
  bool is_kept_new() const { return origin != nullptr && origin->base_path.empty() && !node.is_directory(); }
  // The agent has not changed it since the base's node was recorded as its origin: it is no
  // change, whatever the base has there now. A new one is, if the base has nothing there any more: it would be nowhere.
  // For nodes with one name, and new ones.
  bool is_untouched() const;

  // The base's directory that its children are matched with: the one that it shows or replaced.
  const std::string* counterpart() const { return base_path ? &*base_path : replaces_dir ? &place : nullptr; }
};

// A base name that is deleted by a whiteout, unless a whiteout above it covers it.
struct UpperGap {
  std::string path;   // in the merged tree
  std::string place;  // in the base
  std::optional<Attributes> there;
  const Whiteout* row = nullptr;
  Timestamp known_at;  // when its directory was last changed
};

// A snapshot: valid for the unit in which it was read.
class UpperTree {
 public:
  // Begin a unit of the upper layer first. O(names and rows of the upper layer); O(names of the base) if a copy has
  // lost its own name and the base has other names for it.
  static Result<UpperTree> read(const AgentOverlay& overlay, TreeFinder& base);

  const std::vector<UpperNode>& nodes() const { return nodes_; }  // parents before children; without the root
  const std::vector<UpperGap>& gaps() const { return gaps_; }     // by path
  const UpperNode* find(std::string_view path) const;
  const UpperGap* find_gap(std::string_view path) const;
  const Attributes& root() const { return root_; }
  const Origin* root_origin() const { return find_origin(kRootInode); }
  const Origin* find_origin(Inode upper) const;
  const Whiteout* find_whiteout(std::string_view path) const;
  std::span<const Whiteout> whiteouts_below(std::string_view path) const;
  // What the agent knows of the base's node of that name, if the merged tree shows something else there, or at a
  // directory above it: the cover of that directory. nullptr if it shows the base's, or it was not recorded.
  const Cover* find_cover(std::string_view base_path) const;
  // Whether the agent has removed a node of its own there, and somebody else has put another one into the base that it
  // never saw: no change, but hidden.
  bool is_only_hidden(const UpperGap& gap) const;
  const std::map<std::string, Cover, std::less<>>& covers() const { return covers_; }  // by base path
  std::vector<const Cover*> covers_of(std::string_view base_path) const;  // of the name and everything below it
  // Whether it is a copy of a version that the base does not have (changes/pinned/frozen_tree.h), perhaps changed
  // since.
  bool is_frozen(const UpperNode& node) const;
  const std::unordered_map<Inode, Origin>& origins() const { return origins_; }
  // Renames of the agent that the base has made, too. The origins here follow them, the stored rows do not
  // (UpperEdit::settle_moves).
  const BaseMoves& moves() const { return moves_; }
  const std::unordered_set<Inode>& followed() const { return followed_; }  // whose origin follows one of them
  // Whiteouts of the names that these had before: whatever the base has there now is not what the agent moved away.
  const std::vector<std::string>& ended_whiteouts() const { return ended_whiteouts_; }

  // False if the merged tree shows the base's node of that name, at the same path or moved with a directory above it.
  bool is_gone(std::string_view base_path) const;
  // Whether a directory of the upper layer shows this directory of the base from another path.
  bool is_moved_dir(std::string_view base_path) const { return moved_.contains(std::string(base_path)); }
  // The path in the merged tree of a base name, if it shows it.
  std::string path_of(std::string_view base_path) const;
  // The upper layer's names of a node, as indexes into nodes().
  const std::vector<std::size_t>& names_of(Inode upper) const { return names_.at(upper); }

 private:
  Status load_rows(UpperLayer& upper);
  Status walk(UpperLayer& upper, TreeFinder& base);
  Result<UpperNode> look(const UpperNode& dir, const DirEntry& entry, TreeFinder& base);
  Result<bool> follow_moves(FileSystem& base);
  Status find_gaps(TreeFinder& base);
  using Places = std::unordered_map<Inode, std::vector<std::string>>;
  Result<Places> search_base(const AgentOverlay& overlay, TreeFinder& base, const Places& wanted) const;
  Status find_nameless(const AgentOverlay& overlay, TreeFinder& base);
  std::optional<std::string> place_of(std::string_view path, const UpperNode** dir) const;

  Attributes root_;
  std::unordered_map<Inode, Origin> origins_;
  BaseMoves moves_;
  std::unordered_set<Inode> followed_;
  std::vector<std::string> ended_whiteouts_;
  std::vector<Whiteout> whiteouts_;  // by path
  std::vector<UpperNode> nodes_;
  UpperNode root_node_;
  std::unordered_map<std::string, std::size_t> by_path_;
  std::unordered_map<Inode, std::vector<std::size_t>> names_;
  std::vector<UpperGap> gaps_;
  std::map<std::string, Cover, std::less<>> covers_;
  std::unordered_set<std::string> covered_;             // base names of gaps, and of nodes that are no copies of them
  std::unordered_set<std::string> hidden_;              // base names at which the merged tree shows something else
  std::unordered_set<std::string> shown_;               // every base path in origins_
  std::unordered_map<std::string, std::string> moved_;  // directory of the base → the other path that shows it
};

}  // namespace warren
