// The mounts that this process sees, as the kernel lists them in /proc/self/mountinfo.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

struct MountEntry {
  std::uint64_t id = 0;      // the kernel's number for the mount, as statx gives it
  std::uint64_t device = 0;  // of the filesystem; mounts of the same one have the same
  std::string root;          // which directory or file of the filesystem is mounted
  std::string dir;           // and where
  std::string type;
  std::string source;
};

// In the kernel's order. Lines that make no sense are left out.
std::vector<MountEntry> parse_mount_table(std::string_view text);
Result<std::vector<MountEntry>> read_mount_table();

}  // namespace warren
