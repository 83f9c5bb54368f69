// Finds the nodes of many paths in one tree. Does not follow links.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/below.h"
#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Keeps the directories above the path it found last, so that a neighbour costs one lookup. It retains them, so their
// inode numbers stay valid. For one thread. The filesystem must outlive it.
class TreeFinder {
 public:
  explicit TreeFinder(FileSystem& fs) : fs_(fs) {}
  ~TreeFinder();
  TreeFinder(const TreeFinder&) = delete;
  TreeFinder& operator=(const TreeFinder&) = delete;

  // The path must be normalised. nullopt if nothing is there, or a node above it is not a directory.
  Result<std::optional<Attributes>> find(std::string_view path);

  // Releases the kept directories; call it after changes to the tree.
  void clear();

 private:
  struct Step {
    std::string path;
    Inode dir;
  };
  Result<std::optional<Attributes>> find_name(Inode dir, std::string_view name);
  void cut(std::size_t count);

  FileSystem& fs_;
  std::vector<Step> chain_;  // from the root down, each inside the one before
};

}  // namespace warren
