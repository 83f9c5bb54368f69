// Notification when a file is written to or touched.
#pragma once

#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// One thread at a time.
class FileWatch {
 public:
  static Result<FileWatch> open(const std::string& path);
  // Also notices when this file is touched, deleted or moved.
  Status add_touches_of(const std::string& path);

  int fd() const { return inotify_.get(); }  // readable when something happened

  struct Happened {
    bool written = false;
    bool touched = false;  // attributes: times, mode
  };
  Happened take();  // changes since the last call; does not wait

 private:
  explicit FileWatch(Fd inotify) : inotify_(std::move(inotify)) {}
  Fd inotify_;
};

}  // namespace warren
