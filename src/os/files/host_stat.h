// stat of a host node, with its generation.
//
// Filesystems reuse inode numbers, some at once (ext4). Code that stores a number must store the generation with it:
// the two together identify one node for good.
#pragma once

#include <cstdint>

#include <sys/stat.h>

#include "base/result.h"

namespace warren {

// 0: unknown. Even values are birth times, odd ones come from file handles: a newer kernel may report births where an
// older one did not.
struct HostStat : stat {
  std::uint64_t generation = 0;
};

// Whether two nodes with the same number are different nodes. False if a generation is unknown, or if they are of
// different kinds.
inline bool is_other_generation(std::uint64_t a, std::uint64_t b) {
  return a != b && a != 0 && b != 0 && ((a ^ b) & 1U) == 0;
}

// Where a filesystem's generations come from; the same for all nodes of one device.
enum class GenerationSource {
  kNone,
  kBirth,   // the time the node was created, which stat already returns
  kHandle,  // the file handle used for exporting: needs another system call
};

// Does not follow links; "" is the directory itself. The generation is the node's birth time, if it has one.
Result<HostStat> host_stat(int dir, const char* name);

// The source for the filesystem of a node, given what host_stat returned for it.
GenerationSource find_generation_source(int dir, const char* name, const HostStat& info);

std::uint64_t generation_by_handle(int dir, const char* name);  // 0 if there is none

}  // namespace warren
