// A filesystem mounted on a directory and served by threads of this process.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "fs/file_system.h"
#include "fuse/mount_point.h"
#include "os/fd.h"

namespace warren {

class Session;
struct SessionOptions;

// The filesystem must outlive it. Destroying it unmounts, even if programs still use it.
class Mounted {
 public:
  // Returns when the mount answers. A dead mount on `dir`, whose process is gone, is unmounted first.
  static Result<std::unique_ptr<Mounted>> mount(FileSystem& fs, const std::string& dir, const MountOptions& options,
                                                const SessionOptions& session);

  // Serves a filesystem that was mounted by another process, perhaps where we cannot see it: `device` carries its
  // requests. That process also unmounts it; unmount() and the destructor only stop serving.
  static Result<std::unique_ptr<Mounted>> adopt(FileSystem& fs, Fd device, const std::string& dir,
                                                const SessionOptions& session);
  ~Mounted();
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  // Readable once the filesystem was unmounted, by us or by someone else.
  int ended_fd() const { return ended_.get(); }

  // Writes back the kernel's dirty pages, unmounts and ends the threads. Programs that have files open here get errors
  // from then on.
  void unmount();

  // What was lost of changes through memory maps (Session::lost). Valid after unmount().
  const std::vector<std::string>& lost() const { return lost_; }

  const std::string& dir() const { return dir_; }
  // Why passthrough is not active though it was requested; "" if it is, or was not requested.
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
  std::vector<std::string> lost_;
  std::thread server_;
};

}  // namespace warren
