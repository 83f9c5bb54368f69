// What the host tells of a node, and of which generation it is.
//
// A filesystem gives the number of a node that is gone to the next one, many at once (ext4). Whoever keeps
// numbers over time must keep the generation with them: the two together mean one node for good.
#pragma once

#include <cstdint>

#include <sys/stat.h>

#include "base/result.h"

namespace warren {

// 0: nobody knows. Even ones are births, odd ones come from handles: a newer kernel may know births where it did not.
struct HostStat : stat {
  std::uint64_t generation = 0;
};

// Whether two nodes with the same number are two. Not where one generation is unknown, or of another kind.
inline bool is_other_generation(std::uint64_t a, std::uint64_t b) {
  return a != b && a != 0 && b != 0 && ((a ^ b) & 1U) == 0;
}

// Where a filesystem's generations come from; the same for every node of one device.
enum class GenerationSource {
  kNone,
  kBirth,   // the time the node was made, which stat tells by the way
  kHandle,  // the handle by which the filesystem is exported: a call more
};

// Follows no link; "" is the directory itself. The generation is the node's birth, if it has one.
Result<HostStat> host_stat(int dir, const char* name);

// Of the filesystem of a node that host_stat told of.
GenerationSource find_generation_source(int dir, const char* name, const HostStat& info);

std::uint64_t generation_by_handle(int dir, const char* name);  // 0 if there is none

}  // namespace warren
