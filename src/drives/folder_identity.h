// Which directory of the machine it is, whatever its path.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "os/files/host_stat.h"

namespace warren {

// A filesystem may give the number of a removed directory to the next one; their generations differ.
struct FolderIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t generation = 0;  // 0: unknown

  bool operator==(const FolderIdentity& other) const {
    return device == other.device && inode == other.inode && !is_other_generation(generation, other.generation);
  }
};

Result<FolderIdentity> identify_folder(int dir);

}  // namespace warren
