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

  // Serves what somebody else has mounted, in a place that we may not even see: `device` is where its requests
  // come through. Whoever mounted it also takes it away; unmount() and the destructor only stop serving.
  static Result<std::unique_ptr<Mounted>> adopt(FileSystem& fs, Fd device, const std::string& dir,
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
  // Why files are not read past us though that was asked for; "" where they are, or nobody asked.
  std::string passthrough_problem() const;

 private:
  enum class Owner { kUs, kSomebodyElse };
  Mounted(std::string dir, Owner owner) : dir_(std::move(dir)), owner_(owner) {}
  static Result<std::unique_ptr<Mounted>> serve(FileSystem& fs, Fd device, std::string dir, Owner owner,
                                                const SessionOptions& session);

  std::string dir_;
  Owner owner_;
  Fd ended_;
  std::unique_ptr<Session> session_;
  std::thread server_;
};

}  // namespace warren
