// From a path to its node, for many paths one after the other, in one tree. No link is followed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Keeps the directories on the way to the path it found last, so that neighbours cost one lookup each. It
// retains them: their numbers stay good while they are kept. One thread. The filesystem outlives it.
class TreeFinder {
 public:
  explicit TreeFinder(FileSystem& fs) : fs_(fs) {}
  ~TreeFinder();
  TreeFinder(const TreeFinder&) = delete;
  TreeFinder& operator=(const TreeFinder&) = delete;

  // Of a normalised path. nullopt: there is nothing, or what is on the way is no directory.
  Result<std::optional<Attributes>> find(std::string_view path);

  // Forgets what it keeps: after changes to the tree.
  void clear();

 private:
  struct Step {
    std::string path;
    Inode dir;
  };
  Result<std::optional<Attributes>> find_name(Inode dir, std::string_view name);
  void cut(std::size_t count);

  FileSystem& fs_;
  std::vector<Step> chain_;  // below the root, each one in the one before
};

// Whether `path` is `dir` or below it. Both normalised.
bool is_at_or_below(std::string_view path, std::string_view dir);

}  // namespace warren
