// Which parts of folders of the machine have changed, by inotify and the kernel's table of mounts.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "drives/folder_identity.h"
#include "os/files/dir_watch.h"
#include "os/files/mount_watch.h"

namespace warren {

// For one thread.
class SourceWatch {
 public:
  static Result<SourceWatch> open();

  int fd() const { return watch_.fd(); }  // readable when something happened, except for mounts
  std::size_t size() const { return dirs_.size(); }

  // Also reports what is added to the directory of this descriptor from now on. kLimit: the system is out of watches.
  Status add(int dir, const std::string& host_path);

  // Nothing more is reported of directories that had this path or one below it and have it no longer. Those that still
  // have theirs may be watched for another source.
  void forget_replaced(const std::string& host_path);

  struct Changes {
    // Of the machine: each, and what is below it, may have changed. None is below another. Also where something was
    // mounted or unmounted, whether it is watched or not.
    std::set<std::string> paths;
    bool is_everything = false;  // events were lost
  };
  Changes take();  // does not wait

 private:
  struct Dir {
    std::string host_path;
    FolderIdentity identity;
  };

  SourceWatch(DirWatch watch, MountWatch mounts) : watch_(std::move(watch)), mounts_(std::move(mounts)) {}

  static std::set<std::string> topmost(const std::set<std::string>& paths);

  DirWatch watch_;
  MountWatch mounts_;
  std::map<int, Dir> dirs_;
};

}  // namespace warren
