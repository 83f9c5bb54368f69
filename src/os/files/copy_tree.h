// Copies and moves between two directory trees of the host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <sys/stat.h>

#include "base/result.h"
#include "os/files/host_tree.h"

namespace warren {

// Copies a node, with everything below it and with its metadata, to a name that does not exist. Names of
// one file within the tree stay names of one file. Owners and attributes are kept as far as our rights allow. Leaves
// out what is at or below the `skipped` paths of `from`. Not synced.
Status copy_tree(HostTree& from, std::string_view path, HostTree& to, std::string_view target,
                 const std::unordered_set<std::string>& skipped = {});

// Whether nodes of this directory can be moved to the root of another tree. Only trying it shows that: also within one
// filesystem there are mounts, subvolumes and quotas in between. Both must have the name "probe" free.
Result<bool> can_move_between(HostTree& from, std::string_view dir, HostTree& to);

// Renames a node from one tree to a free name in another. kCrossDevice if that is impossible.
Status move_between(HostTree& from, std::string_view path, HostTree& to, std::string_view target);

// Gives a node, which is no directory, a second name in another tree. An error if that is impossible.
Status link_between(HostTree& from, std::string_view path, HostTree& to, std::string_view target);

struct TreeSize {
  std::uint64_t bytes = 0;      // that the files occupy
  bool has_hard_links = false;  // a file has several names, perhaps outside of the tree
};
Result<TreeSize> measure_tree(HostTree& tree, std::string_view path,
                              const std::unordered_set<std::string>& skipped = {});

// Everything below a directory, each after the directory that it is in.
struct TreeEntry {
  std::string path;
  struct stat attributes;
};
Result<std::vector<TreeEntry>> list_tree(HostTree& tree, std::string_view dir);

}  // namespace warren
