// The directories that programs have open, and which of their listings are stale.
//
// The kernel caches a listing, and takes it for the state at the time of reading: a name that changed between opening
// and reading would be missing for as long as the listing is cached. The kernel knows about changes made through the
// mount; it must be notified of all others after it has read the listing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "fs/file_system.h"

namespace warren {

struct OpenDir {
  explicit OpenDir(Inode opened) : dir(opened) {}

  const Inode dir;
  std::mutex mutex;
  std::shared_ptr<DirStream> stream;                // under the mutex
  std::atomic<bool> is_old = false;                 // a name in it has changed since `stream` was opened
  std::atomic<bool> has_changed_elsewhere = false;  // a name has changed, and not through the mount
};

class OpenDirs {
 public:
  std::uint64_t add(std::shared_ptr<OpenDir> opened);
  std::shared_ptr<OpenDir> find(std::uint64_t handle);  // null: there is none
  std::shared_ptr<OpenDir> take(std::uint64_t handle);  // the same, and closes it

  void changed_here(Inode dir);
  void changed_elsewhere(Inode dir);
  void all_changed_elsewhere();

 private:
  std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<OpenDir>> open_;
};

}  // namespace warren
