// The other names under which mounts show a path: bind mounts, and the same filesystem mounted elsewhere.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/mount_table.h"

namespace warren {

// A snapshot of the mounts. Thread-safe.
class Aliases {
 public:
  static Result<Aliases> read();

  struct Alias {
    std::string path;  // canonical, and reachable at the moment
    bool is_directory = true;
  };
  // Where else `path`, which is canonical, or something below it can be reached. By what the table says of each mount's
  // root and by identity, since some filesystems (NFS) do not say it. Not found: hard links; another filesystem that
  // is built on this one (overlayfs, a FUSE mirror); of such that do not say it, a mount of something below `path`.
  std::vector<Alias> of(const std::string& path) const;

 private:
  explicit Aliases(std::vector<MountEntry> mounts) : mounts_(std::move(mounts)) {}

  std::vector<MountEntry> mounts_;
};

}  // namespace warren
