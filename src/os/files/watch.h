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
  // Also notices when another file is touched, deleted or moved and, if wanted, when it is written to. Called again for
  // the same file, it changes what is noticed.
  enum class Writes { kIgnored, kNoticed };
  Status add_touches_of(const std::string& path, Writes writes = Writes::kIgnored);

  int fd() const { return inotify_.get(); }  // readable when something happened

  struct Happened {
    bool written = false;
    bool touched = false;  // attributes: times, mode
    bool other_written = false;
  };
  Happened take();  // changes since the last call; does not wait

 private:
  explicit FileWatch(Fd inotify) : inotify_(std::move(inotify)) {}
  Fd inotify_;
  int other_ = -1;  // its watch
};

}  // namespace warren
