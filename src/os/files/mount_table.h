// The mounts that this process sees, as the kernel lists them in /proc/self/mountinfo.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

struct MountEntry {
  std::uint64_t id = 0;      // the kernel's mount id, as statx returns it
  std::uint64_t parent = 0;  // the id of the mount that it is on
  bool is_slave = false;     // it follows what is mounted and unmounted on another mount
  std::uint64_t device = 0;  // of the filesystem; the same for all its mounts
  std::string root;          // which directory or file of the filesystem is mounted
  std::string dir;           // and where
  std::string type;
  std::string source;
};

// In the kernel's order. Malformed lines are skipped.
std::vector<MountEntry> parse_mount_table(std::string_view text);
Result<std::vector<MountEntry>> read_mount_table();

}  // namespace warren
