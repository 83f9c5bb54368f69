// Renames that the agent has made and that the base has made, too: the user merged the agent's commits, applied another
// session, or ran the same `mv`. From then on the node's origin is where the base has it now.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"
#include "fs/overlay/upper_layer.h"

namespace warren {

// Base paths that are elsewhere in the base now, with everything below them: from → to.
class BaseMoves {
 public:
  void add(std::string from, std::string to) { moves_.insert_or_assign(std::move(from), std::move(to)); }
  void remove(const std::string& from) { moves_.erase(from); }
  bool empty() const { return moves_.empty(); }
  bool contains(std::string_view from) const { return moves_.find(from) != moves_.end(); }
  const std::map<std::string, std::string, std::less<>>& all() const { return moves_; }

  // Where the node of that base path is now; nullopt if it has not moved. The nearest directory above it counts.
  std::optional<std::string> find(std::string_view base_path) const;
  // Adds moves of what these have moved.
  void add_later(const BaseMoves& later);

  bool operator==(const BaseMoves&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> moves_;
};

// A copy that the merged tree shows at another place than its origin.
struct MovedCopy {
  std::string base_path;  // its origin
  std::string place;      // the base path that its name corresponds to
  Attributes seen;        // the base's node when it was copied
};

// The base has made the rename of a copy, too, if the place has a node of its type, and the origin has none: or the
// place has the very node that was copied. Not if another copy shows the base's node of that place; `base_paths` are
// those of all copies. If both names exist in the base and neither is the node that was copied, the origin stays what
// it was: the change is a conflict.
BaseMoves find_base_moves(FileSystem& base, const std::vector<MovedCopy>& copies,
                          const std::set<std::string, std::less<>>& base_paths);

// Rewrites an origin after the moves: its path, and for the node that has moved itself which directory it is. Mode and
// owner stay those that the agent saw. False if it has not moved.
Result<bool> follow(const BaseMoves& moves, FileSystem& base, Origin& row);

// Finds the moves of the directories in these rows, and rewrites the paths of all rows after them. O(directories), and
// O(names of the upper layer) if the origin of one of them is gone, or is another directory now.
Result<BaseMoves> follow_moved_dirs(UpperLayer& upper, FileSystem& base, std::vector<Origin>& rows);

// The base's node there, without following links; nullopt if there is none.
Result<std::optional<Attributes>> find_in_tree(FileSystem& base, std::string_view path);

}  // namespace warren
