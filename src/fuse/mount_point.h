// Mounting a FUSE filesystem on a directory, and unmounting it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// Who besides the mounting user may enter. The kernel keeps everyone else out, even root.
enum class MountFor { kOwner, kRootToo, kEveryone };

struct MountOptions {
  std::string source;  // shown in the mount table: the agent's file
  MountFor audience = MountFor::kOwner;
  bool read_only = false;
  bool no_exec = false;
};

// Returns the descriptor for the kernel's requests. Root mounts directly, anyone else through fusermount3. kNotFound,
// kNotDirectory, kDenied (the message names /dev/fuse if that is the cause).
Result<Fd> mount_fuse(const std::string& dir, const MountOptions& options);

// Raises the kernel's read-ahead, so that sequential reads arrive in large requests. Only root may do that; for others
// nothing changes.
void read_further_ahead(const std::string& dir);

enum class Unmount {
  kIfUnused,  // kBusy while programs have files open or their working directory in it
  kDetach,    // removed from the tree at once; open files fail when the server ends
};
Status unmount_fuse(const std::string& dir, Unmount how);

// Whether the server of a mount has died: every access then fails until it is unmounted. A mount that does not answer
// in time is not dead, only busy or stuck.
bool is_dead_mount(const std::string& dir);

// Whether a process that we may inspect has a file open there, or its working directory. O(processes).
bool is_in_use(const std::string& dir);

// The canonical path of a mount point. A dead mount cannot be entered, so only its parent directory is resolved.
Result<std::string> resolve_mount_point(const std::string& dir);

// One line of the system's mount table.
struct MountedFs {
  std::string dir;
  std::string source;
};
Result<std::vector<MountedFs>> list_warren_mounts();

}  // namespace warren
