// Other names under which mounts show a path: bind mounts, and the same filesystem mounted elsewhere.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/files/mount_table.h"

namespace warren {

// A snapshot of the mounts. Thread-safe.
class Aliases {
 public:
  static Result<Aliases> read();

  struct Alias {
    std::string path;  // canonical, and reachable at the moment
    bool is_directory = true;
  };
  // The other paths by which `path`, which is canonical, or something below it can be reached. Found by each mount's
  // root in the mount table, and by identity, since some filesystems (NFS) do not report the root. Not found: hard
  // links; other filesystems built on this one (overlayfs, a FUSE mirror); and, where the root is not reported, mounts
  // of something below `path`.
  std::vector<Alias> of(const std::string& path) const;

 private:
  explicit Aliases(std::vector<MountEntry> mounts) : mounts_(std::move(mounts)) {}

  std::vector<MountEntry> mounts_;
};

}  // namespace warren
