// Which parts of folders of the machine have changed, by inotify.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "os/dir_watch.h"

namespace warren {

// For one thread.
class SourceWatch {
 public:
  static Result<SourceWatch> open();

  int fd() const { return watch_.fd(); }  // readable when something happened
  std::size_t size() const { return dirs_.size(); }

  // Also reports what is added to the directory of this descriptor from now on. kLimit: the system is out of watches.
  Status add(int dir, const std::string& host_path);

  // Nothing more is reported of the directories that had this path or one below it.
  void forget(const std::string& host_path);

  struct Changes {
    std::set<std::string> paths;  // of the machine: each, and what is below it, may have changed. None is below another
    bool is_everything = false;   // events were lost
  };
  Changes take();  // does not wait

 private:
  explicit SourceWatch(DirWatch watch) : watch_(std::move(watch)) {}

  DirWatch watch_;
  std::map<int, std::string> dirs_;
};

}  // namespace warren
