// Reports to a listener the changes in the directories of a HostFs that were looked into.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/result.h"
#include "fs/change_listener.h"
#include "fs/types.h"
#include "os/fd.h"
#include "os/files/dir_watch.h"

namespace warren {

class FileSystem;

// Has a thread of its own. Once the system is out of watches it reports "everything changed" once a second, for lack of
// anything better.
class HostWatch {
 public:
  // Both outlive it.
  static Result<std::unique_ptr<HostWatch>> start(FileSystem& fs, ChangeListener& listener);
  ~HostWatch();  // when it returns, no call to the listener is in progress
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  bool add(int dir_fd, Inode dir);  // false if it could not be watched

 private:
  HostWatch(FileSystem& fs, ChangeListener& listener, DirWatch watch, Fd stop);
  void run();
  void notify(const DirWatch::Event& event);

  FileSystem& fs_;
  ChangeListener& listener_;
  DirWatch watch_;
  Fd stop_;
  std::atomic<bool> is_blind_ = false;  // some directory could not be watched
  std::mutex mutex_;
  std::unordered_map<int, Inode> dirs_;  // by watch
  std::thread thread_;
};

}  // namespace warren
