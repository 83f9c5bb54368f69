#include "fuse/kernel_nodes.h"

namespace warren {

KernelNodes::~KernelNodes() {
  for (auto [node, count] : counts_) fs_.forget(node, 1);
}

// The filesystem is called outside our lock: it takes its own, and may wait for a disk.
Status KernelNodes::add(Inode node) {
  if (node == kRootInode) return Ok{};
  {
    std::lock_guard guard(mutex_);
    auto known = counts_.find(node);
    if (known != counts_.end()) {
      ++known->second;
      return Ok{};
    }
  }
  WARREN_TRY(fs_.retain(node));
  std::lock_guard guard(mutex_);
  ++counts_[node];
  return Ok{};
}

void KernelNodes::forget(Inode node, std::uint64_t count) {
  {
    std::lock_guard guard(mutex_);
    auto known = counts_.find(node);
    if (known == counts_.end()) return;
    if (known->second > count) {
      known->second -= count;
      return;
    }
    counts_.erase(known);
  }
  fs_.forget(node, 1);
}

bool KernelNodes::has(Inode node) const {
  std::lock_guard guard(mutex_);
  return node == kRootInode || counts_.contains(node);
}

std::vector<Inode> KernelNodes::list() const {
  std::lock_guard guard(mutex_);
  std::vector<Inode> nodes{kRootInode};
  nodes.reserve(counts_.size() + 1);
  for (auto [node, count] : counts_) nodes.push_back(node);
  return nodes;
}

}  // namespace warren
