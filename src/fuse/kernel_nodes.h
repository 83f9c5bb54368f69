// The nodes that the kernel holds, with its lookup count for each.
//
// Every entry we answer with adds one; the kernel returns them with FORGET. As long as it holds a node, the node is
// retained in the filesystem: an unlinked file stays readable for programs that have it open, without our being asked
// at each open.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

// Thread-safe.
class KernelNodes {
 public:
  explicit KernelNodes(FileSystem& fs) : fs_(fs) {}
  ~KernelNodes();
  KernelNodes(const KernelNodes&) = delete;
  KernelNodes& operator=(const KernelNodes&) = delete;

  Status add(Inode node);  // kStale if it no longer exists
  void forget(Inode node, std::uint64_t count);
  bool has(Inode node) const;
  std::vector<Inode> list() const;

 private:
  FileSystem& fs_;
  mutable std::mutex mutex_;
  std::unordered_map<Inode, std::uint64_t> counts_;  // under mutex_
};

}  // namespace warren
