// The upper layer of an overlay, read whole and set against the base: which node comes from where, and which
// names of the base are no longer what they were. Used by everything here; what it means is decided above.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/tree_finder.h"
#include "fs/upper_layer.h"

namespace warren {

// A name in the upper layer.
struct UpperNode {
  std::string path;
  Attributes node;                       // as the upper layer has it
  Inode parent;                          // its directory in the upper layer
  std::string place;                     // the base's name for the path; "" where the directory has no counterpart
  std::optional<Attributes> there;       // what the base has at `place`
  const Origin* origin = nullptr;        // its row, if it has one
  std::optional<std::string> base_path;  // of a directory: the base's directory that it shows
  // A directory that shows nothing of the base but stands where the base has one: it took its place.
  bool replaces_dir = false;
  Timestamp parent_changed;  // ctime of its directory
  // It has no name in the upper layer, and no directory there: the path is one of the names that the base still has for
  // the node it is a copy of.
  bool is_nameless = false;

  // What its children are set against: the base's directory that it shows or took the place of.
  const std::string* counterpart() const { return base_path ? &*base_path : replaces_dir ? &place : nullptr; }
};

// A name of the base that is gone by a whiteout, and not covered by one further up.
struct UpperGap {
  std::string path;   // of the merged tree
  std::string place;  // the base's name
  std::optional<Attributes> there;
  const Whiteout* row = nullptr;
  Timestamp known_at;  // when the directory it is in was changed last
};

// Nothing here follows changes: good for the unit in which it was read.
class UpperTree {
 public:
  // Begin a unit of the upper layer first. O(names and rows of the upper layer); O(names of the base) when a copy has
  // lost its own name and the base has others for it.
  static Result<UpperTree> read(const AgentOverlay& overlay, TreeFinder& base);

  const std::vector<UpperNode>& nodes() const { return nodes_; }  // parents before children; without the root
  const std::vector<UpperGap>& gaps() const { return gaps_; }
  const UpperNode* find(std::string_view path) const;
  const Attributes& root() const { return root_; }
  const Origin* root_origin() const { return find_origin(kRootInode); }
  const Origin* find_origin(Inode upper) const;
  const Whiteout* find_whiteout(std::string_view path) const;
  const std::vector<Whiteout>& whiteouts() const { return whiteouts_; }
  const std::unordered_map<Inode, Origin>& origins() const { return origins_; }

  // Whether the merged tree still shows the base's node of that name under that name, or moved along with a
  // directory above it.
  bool is_gone(std::string_view base_path) const;
  // Whether a directory of the upper layer shows this directory of the base from another path.
  bool is_moved_dir(std::string_view base_path) const { return moved_.contains(std::string(base_path)); }
  // Where the merged tree has a name of the base, if it shows it.
  std::string path_of(std::string_view base_path) const;
  // The names in the upper layer of a node that has several.
  const std::vector<std::size_t>& names_of(Inode upper) const { return names_.at(upper); }

 private:
  Status load_rows(UpperLayer& upper);
  Status walk(UpperLayer& upper, TreeFinder& base);
  Result<UpperNode> look(const UpperNode& dir, const DirEntry& entry, TreeFinder& base);
  Status find_gaps(TreeFinder& base);
  using Places = std::unordered_map<Inode, std::vector<std::string>>;
  Result<Places> search_base(const AgentOverlay& overlay, TreeFinder& base, const Places& wanted) const;
  Status find_nameless(const AgentOverlay& overlay, TreeFinder& base);
  std::optional<std::string> place_of(std::string_view path, const UpperNode** dir) const;

  Attributes root_;
  std::unordered_map<Inode, Origin> origins_;
  std::vector<Whiteout> whiteouts_;  // by path
  std::vector<UpperNode> nodes_;
  UpperNode root_node_;
  std::unordered_map<std::string, std::size_t> by_path_;
  std::unordered_map<Inode, std::vector<std::size_t>> names_;
  std::vector<UpperGap> gaps_;
  std::unordered_set<std::string> hidden_;              // names of the base that show nothing of it any more
  std::unordered_set<std::string> shown_;               // every base path in origins_
  std::unordered_map<std::string, std::string> moved_;  // directories of the base → the other path they are shown from
};

}  // namespace warren
