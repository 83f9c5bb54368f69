// Attaching a FUSE filesystem to a directory, and taking it away again.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Who but the mounting user may enter. The kernel keeps everyone else out, root included.
enum class MountFor { kOwner, kRootToo, kEveryone };

struct MountOptions {
  std::string source;  // shown in the mount table: the agent's file
  MountFor audience = MountFor::kOwner;
  bool read_only = false;
  bool no_exec = false;
};

// The descriptor that the kernel's requests come through. Root mounts by itself, anyone else through
// fusermount3. kNotFound, kNotDirectory, kDenied (the message names /dev/fuse where that is why).
Result<Fd> mount_fuse(const std::string& dir, const MountOptions& options);

// Lets the kernel read far ahead, so that reading a file from end to end comes in large requests. Only root
// may; for others it stays as it is.
void read_further_ahead(const std::string& dir);

enum class Unmount {
  kIfUnused,  // kBusy while programs have files open or their working directory in it
  kDetach,    // gone from the tree at once; what is open fails when its server ends
};
Status unmount_fuse(const std::string& dir, Unmount how);

// A mount whose server has died: every access fails until it is taken away. One that does not answer within
// moments is not dead, only busy or stuck.
bool is_dead_mount(const std::string& dir);

// Whether a process that we may look at has a file open there, or its working directory. O(processes).
bool is_in_use(const std::string& dir);

// The absolute path of a mount point, without links. A dead mount cannot be looked into, so there only the
// directory it is in is resolved.
Result<std::string> resolve_mount_point(const std::string& dir);

// One line of the system's mount table.
struct MountedFs {
  std::string dir;
  std::string source;
};
Result<std::vector<MountedFs>> list_warren_mounts();

}  // namespace warren
