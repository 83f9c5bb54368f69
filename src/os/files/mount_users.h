// Which processes keep a mount busy.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace warren {

struct MountUser {
  pid_t pid = 0;
  std::string name;  // of its program, as the process has it: a stranger's text
  std::string path;  // one of the paths that it uses
};

// The processes that have their working or root directory, program, an open file or a memory map at or below `dir`,
// which is canonical; without the calling one. Processes that we may not inspect are missing: those of other users,
// except for root. Asks only /proc, so a filesystem that does not answer does not matter.
std::vector<MountUser> list_mount_users(const std::string& dir);

}  // namespace warren
