// A filesystem mounted on a directory and served by threads of this process.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "fs/file_system.h"
#include "fuse/mount_point.h"
#include "os/fd.h"

namespace warren {

class Session;
struct SessionOptions;

// The filesystem must outlive it. Destroying it unmounts, whoever still uses it.
class Mounted {
 public:
  // Returns when the mount answers. A dead mount on `dir`, whose process is gone, is taken away first.
  static Result<std::unique_ptr<Mounted>> mount(FileSystem& fs, const std::string& dir, const MountOptions& options,
                                                const SessionOptions& session);
  ~Mounted();
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  // Readable once the filesystem was unmounted, by us or from outside.
  int ended_fd() const { return ended_.get(); }

  // Writes out what the kernel still has, takes the directory away and ends the threads. Programs that
  // have files open here get errors from then on.
  void unmount();

  const std::string& dir() const { return dir_; }

 private:
  explicit Mounted(std::string dir) : dir_(std::move(dir)) {}

  std::string dir_;
  Fd ended_;
  std::unique_ptr<Session> session_;
  std::thread server_;
};

}  // namespace warren
