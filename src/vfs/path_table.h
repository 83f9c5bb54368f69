// Where the nodes of a tree are: node → parent and name, and what was decided about that path.
//
// A FileSystem works by number, rules by path. The table learns places from lookups, listings and changes; renaming a
// directory changes one entry and makes all decisions be taken again, whatever the directory contains.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "fs/types.h"
#include "vfs/rights.h"

namespace warren {

// Thread-safe. Entries stay while the node is retained or has known children, and for a while after their last use.
class PathTable {
 public:
  // With `spots_max`, only so many names of a file with several are known: the last ones under which it was found.
  explicit PathTable(std::size_t size_max = kSizeMax, std::size_t spots_max = SIZE_MAX);
  static constexpr std::size_t kSizeMax = 65'536;

  // `node` was found under this name. A file with several names has a place for each that was seen.
  void learn(const Attributes& node, Inode parent, std::string_view name) {
    learn(node.inode, parent, name, node.is_directory(), node.nlink > 1);
  }
  void learn(Inode node, Inode parent, std::string_view name, bool is_directory, bool may_have_others);
  void moved(Inode node, Inode parent, std::string_view name, Inode new_parent, std::string_view new_name);
  void removed(Inode node, Inode parent, std::string_view name);
  // Forgets all other places of a file: another door removed them.
  void keep_only(Inode node, const std::vector<EntryName>& places);

  void retain(Inode node);
  void forget(Inode node, std::uint64_t count);

  std::size_t count_places(Inode node) const;
  std::optional<EntryName> find_place(Inode node) const;  // one of them
  Result<std::vector<std::string>> paths_of(Inode node);  // at least one; kStale if it was never seen
  Result<std::string> path_in(Inode dir, std::string_view name);

  // The common rights of all its paths, decided by `decide` and kept until the generation changes or a directory moves.
  using Decide = std::function<Rights(std::string_view path)>;
  Result<Rights> rights_of(Inode node, std::uint64_t generation, const Decide& decide);
  std::optional<Rights> find_rights(Inode node, std::uint64_t generation);  // unset if they must be decided

  std::size_t size() const;

 private:
  struct Entry {
    std::vector<EntryName> spots;
    std::uint64_t retained = 0;
    std::uint64_t children = 0;
    bool is_recent = true;
    bool is_directory = false;
    Rights rights;
    std::uint64_t decided_at = 0;  // 0: not decided
    std::uint64_t epoch = 0;
  };

  std::string path_of(const EntryName& spot) const;
  void add_spot(Entry& entry, EntryName spot);
  void remove_spots(Entry& entry);
  void sweep();

  mutable std::mutex mutex_;
  std::size_t size_max_;
  std::size_t spots_max_;
  std::size_t sweep_at_;
  std::uint64_t epoch_ = 1;  // of the directories' places
  std::unordered_map<Inode, Entry> entries_;
};

}  // namespace warren
