// Files that the kernel reads directly from the host file with their content, without asking us.
//
// The kernel's rule (Linux 6.9 and later): either all opens of a file use passthrough, or none. So every open and close
// is counted here. A writer has to wait until nobody reads the file that way; see docs/design/fuse.md.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/result.h"
#include "fs/file_system.h"
#include "fuse/channel.h"

namespace warren {

// Smaller files do not benefit.
inline constexpr std::uint64_t kPassthroughBytes = std::uint64_t{1} << 20;

// Thread-safe, but only one thread opens for reading and releases. Filesystem and channel outlive it.
class Passthrough {
 public:
  // The answer to an open.
  struct Opened {
    std::uint64_t handle = 0;
    std::uint32_t flags = 0;
    std::int32_t backing = 0;
  };

  Passthrough(FileSystem& fs, Channel& channel) : fs_(fs), channel_(channel) {}

  // Whether the kernel allows it; call after its first request was answered. kNotPermitted, kUnsupported.
  Status probe();

  // Whether the file is being read by passthrough; if so, the two calls that may wait do so for a moment.
  bool is_in_use(Inode node);

  Result<Opened> open_to_read(Inode node);
  Result<Opened> open_to_write(Inode node);  // kBusy
  Status wait_to_change(Inode node);         // before its size changes without an open; kBusy

  void release(Inode node, std::uint64_t handle);

 private:
  struct Opens {
    std::uint64_t ordinary = 0;
    std::uint64_t past = 0;
    std::int32_t backing = 0;
  };

  Opens find(Inode node);
  Result<std::int32_t> find_backing(Inode node);
  Status wait(std::unique_lock<std::mutex>& lock, Inode node);

  FileSystem& fs_;
  Channel& channel_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::unordered_map<Inode, Opens> opens_;  // under mutex_
};

}  // namespace warren
